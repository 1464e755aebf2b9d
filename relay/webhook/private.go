package webhook

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
)

// private are networks that have no webhook receiver on the public internet, besides
// those that netip names.
var private = func() []netip.Prefix {
	var all []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8",       // this network
		"100.64.0.0/10",   // carriers' own
		"192.0.0.0/24",    // protocols
		"192.0.2.0/24",    // documentation
		"192.88.99.0/24",  // 6to4 relays
		"198.18.0.0/15",   // measurements
		"198.51.100.0/24", // documentation
		"203.0.113.0/24",  // documentation
		"240.0.0.0/4",     // reserved, and broadcast
		"64:ff9b::/96",    // IPv4 behind NAT64: any address of those above
		"64:ff9b:1::/48",  // the same, local
		"100::/64",        // discarded
		"2001::/23",       // protocols, Teredo among them
		"2001:db8::/32",   // documentation
		"2002::/16",       // 6to4: any address of those above
		"fec0::/10",       // sites, once
	} {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}()

// isPrivate says whether an address is not public.
func isPrivate(a netip.Addr) bool {
	a = a.Unmap().WithZone("")
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() {
		return true
	}
	for _, p := range private {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// refusePrivate looks at the very address that is dialled, after the name was
// looked up: a name that changes its mind gains nothing.
func refusePrivate(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if isPrivate(at.Addr()) {
		return fmt.Errorf("%s is no public address; webhooks reach others only when they are allowed to", at.Addr())
	}
	return nil
}
