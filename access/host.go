package access

import (
	"net"
	"net/netip"
	"strings"
)

// Hostname returns the name or address of a host, without its port and brackets.
func Hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.Trim(host, "[]")
}

// Loopback reports whether a host, with or without port, is this machine's loopback.
func Loopback(host string) bool {
	name := Hostname(host)
	if strings.EqualFold(strings.TrimSuffix(name, "."), "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}
