package webhook

import (
	"context"
	"fmt"
	"net/netip"
	"syscall"
)

// private lists networks that are not part of the public internet, besides those that
// netip knows.
var private = func() []netip.Prefix {
	var all []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8",       // this network
		"100.64.0.0/10",   // carrier-grade NAT
		"192.0.0.0/24",    // IETF protocol assignments
		"192.0.2.0/24",    // documentation
		"192.88.99.0/24",  // 6to4 relays
		"198.18.0.0/15",   // benchmarks
		"198.51.100.0/24", // documentation
		"203.0.113.0/24",  // documentation
		"240.0.0.0/4",     // reserved, and broadcast
		"64:ff9b::/96",    // IPv4 behind NAT64: embeds any of the addresses above
		"64:ff9b:1::/48",  // the same, local
		"100::/64",        // discarded
		"2001::/23",       // protocols, Teredo among them
		"2001:db8::/32",   // documentation
		"2002::/16",       // 6to4: embeds any of the addresses above
		"fec0::/10",       // site-local, deprecated
	} {
		all = append(all, netip.MustParsePrefix(s))
	}
	return all
}()

// isPrivate reports whether an address is not public.
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

// refusePrivate checks the address that is dialled, after the name was resolved. A name
// that resolves differently a second time (DNS rebinding) is therefore refused too.
func refusePrivate(_ context.Context, _, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if isPrivate(at.Addr()) {
		return fmt.Errorf("%s is not a public address; set allow_private to allow it", at.Addr())
	}
	return nil
}
