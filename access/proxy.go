package access

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawl-work/pawl"
)

// UnixPeer in ProxyOptions.From trusts the callers of a Unix socket.
const UnixPeer = "unix"

// ProxyOptions say which proxies are trusted, and in which headers they name the user.
type ProxyOptions struct {
	// From are the addresses of the proxies: addresses, networks such as 10.0.0.0/8, or
	// UnixPeer. At least one.
	From []string
	// UserHeader has the name of the user, and GroupsHeader the groups, with commas between
	// them. Without a UserHeader, the proxy only says where a request comes from:
	// X-Forwarded-For, X-Forwarded-Host and X-Forwarded-Proto.
	UserHeader, GroupsHeader string
	// Groups are the roles of the groups.
	Groups Groups
}

// Proxy believes the headers of trusted proxies. Its headers in other requests are removed.
type Proxy struct {
	o    ProxyOptions
	nets []netip.Prefix
	unix bool
}

// NewProxy returns ErrInvalid if an address is none.
func NewProxy(o ProxyOptions) (*Proxy, error) {
	if len(o.From) == 0 {
		return nil, pawl.Invalid("", "names no address of a proxy")
	}
	p := &Proxy{o: o}
	for _, text := range o.From {
		if text == UnixPeer {
			p.unix = true
			continue
		}
		prefix, err := netip.ParsePrefix(text)
		if err != nil {
			var addr netip.Addr
			if addr, err = netip.ParseAddr(text); err == nil {
				prefix = netip.PrefixFrom(addr, addr.BitLen())
			}
		}
		if err != nil || prefix != prefix.Masked() {
			return nil, pawl.Invalid("", "%q is no address and no network such as 10.0.0.0/8", text)
		}
		p.nets = append(p.nets, prefix)
	}
	return p, nil
}

// trusts reports whether a request of an address, host:port or host, comes from a trusted proxy.
func (p *Proxy) trusts(remote string) bool {
	if remote == "" || remote[0] == '@' || remote[0] == '/' {
		return p.unix
	}
	addr, ok := addressOf(remote)
	return ok && slices.ContainsFunc(p.nets, func(n netip.Prefix) bool { return n.Contains(addr) })
}

func addressOf(remote string) (netip.Addr, bool) {
	if host, _, err := net.SplitHostPort(remote); err == nil {
		remote = host
	}
	addr, err := netip.ParseAddr(strings.Trim(remote, "[]"))
	return addr.Unmap().WithZone(""), err == nil
}

// forwarded is what a proxy says about a request.
type forwarded struct {
	user    *Principal
	err     error // why the user is not usable
	refused error // the headers of a user came from an address that is not trusted
}

type forwardedKey struct{}

func forwardedOf(ctx context.Context) forwarded {
	f, _ := ctx.Value(forwardedKey{}).(forwarded)
	return f
}

// Forwarded returns a request as its trusted proxy received it, with the address of the client
// and the host that the client named. It takes out the headers that name the user, and all
// headers of forwarding that another address has sent; headers of a user from there are logged.
// Without a Proxy it returns the request as it is.
func (g *Gate) Forwarded(r *http.Request) *http.Request {
	p := g.o.Proxy
	if p == nil {
		return r
	}
	var f forwarded
	trusted, peer, header := p.trusts(r.RemoteAddr), r.RemoteAddr, r.Header
	users, groups := take(header, p.o.UserHeader), take(header, p.o.GroupsHeader)
	switch {
	case trusted && len(users) > 0:
		f = p.user(users, groups)
	case !trusted && len(users)+len(groups) > 0:
		f.refused = &pawl.Error{Code: pawl.CodeUnauthenticated, Message: "a user is named by " + p.o.UserHeader +
			", which this server accepts from its trusted proxies only"}
		if left, ok := g.lines.allow(); ok {
			g.o.Log.WarnContext(r.Context(), "headers of a user came from an address that is no trusted proxy", "remote", peer, "left_out", left)
		}
	}
	out := r.WithContext(context.WithValue(r.Context(), forwardedKey{}, f))
	out.Header = header.Clone()
	for _, name := range []string{p.o.UserHeader, p.o.GroupsHeader} {
		out.Header.Del(name)
	}
	if !trusted {
		for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
			out.Header.Del(name)
		}
		return out
	}
	if client, ok := p.client(header.Values("X-Forwarded-For")); ok {
		out.RemoteAddr = net.JoinHostPort(client, "0")
	}
	if hosts := header.Values("X-Forwarded-Host"); len(hosts) == 1 && hosts[0] != "" && !strings.ContainsAny(hosts[0], ", ") {
		out.Host = hosts[0]
	}
	return out
}

func take(h http.Header, name string) []string {
	if name == "" {
		return nil
	}
	return h.Values(name)
}

// client returns the last address that is not one of a trusted proxy.
func (p *Proxy) client(headers []string) (string, bool) {
	hops := strings.Split(strings.Join(headers, ","), ",")
	for _, hop := range slices.Backward(hops) {
		addr, ok := addressOf(strings.TrimSpace(hop))
		if !ok {
			return "", false
		}
		if !p.trusts(addr.String()) {
			return addr.String(), true
		}
	}
	return "", false
}

func (p *Proxy) user(users, groups []string) forwarded {
	name := strings.TrimSpace(users[0])
	bad := !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl)
	if len(users) > 1 || name == "" || bad || len(name) > pawl.MaxIDLen-len("proxy#") {
		return forwarded{user: &Principal{}, err: &pawl.Error{Code: pawl.CodeUnauthenticated,
			Message: "the proxy is to name one user in " + p.o.UserHeader + ", as text of at most 249 bytes"}}
	}
	var names []string
	for group := range strings.SplitSeq(strings.Join(groups, ","), ",") {
		names = append(names, strings.TrimSpace(group))
	}
	return forwarded{user: &Principal{ID: "proxy#" + name, Name: name, Grants: p.o.Groups.Grants(names)}}
}

func (g *Gate) enterUser(f forwarded) (Pass, error) {
	if f.err != nil {
		return Pass{}, f.err
	}
	return g.EnterAs(*f.user)
}

// Proxied reports whether a trusted proxy names the user of a request, and no token does.
func Proxied(r *http.Request) bool { return forwardedOf(r.Context()).user != nil }
