package gate

import (
	"context"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
)

// caller returns who acts: the bearer of the token of a lease, or the claim that the headers name beside
// an API key, or without one where the server requires none. The claim must be the current one. With opens, that was
// so once: the transaction that opens an effect compares the claim again.
func (g *Gate) caller(r *http.Request, opens bool) (context.Context, pawl.Fence, error) {
	if token := access.Bearer(r.Header); token != "" && r.Header.Get(ItemHeader) == "" {
		find := g.Ledger.FindToken
		if opens {
			find = g.Ledger.ClaimOfToken
		}
		t, err := find(r.Context(), token)
		if err != nil {
			if code := pawl.CodeOf(err); code == pawl.CodeInvalid || code == pawl.CodeNotFound {
				err = &pawl.Error{Code: pawl.CodeUnauthenticated, Op: "gate", Message: "this is no token of a lease of this database"}
			} else if code == pawl.CodeConflict { // handed in, or ended
				err = &pawl.Error{Code: pawl.CodeLeaseLost, Op: "gate", Reason: pawl.ReasonReleased, Message: "the item was handed in or has ended"}
			}
			return nil, pawl.Fence{}, err
		}
		who := pawl.Caller{Namespace: t.Namespace, ActorType: pawl.ActorWorker, ActorID: t.WorkerID}
		return pawl.As(r.Context(), who), pawl.Fence{ItemID: t.ItemID, WorkerID: t.WorkerID, Attempt: t.Attempt}, nil
	}
	ns, err := access.Header(r.Header, api.NamespaceHeader)
	if err != nil {
		return nil, pawl.Fence{}, err
	}
	who := pawl.Caller{Namespace: ns}
	if g.Keys != nil {
		pass, err := g.Keys.EnterRequest(r)
		if err == nil {
			pass = pass.Asking(who)
			if err = pass.May("claimer", false); err == nil {
				who, err = pass.Caller("claimer")
			}
		}
		if err != nil {
			return nil, pawl.Fence{}, err
		}
	}
	attempt, err := strconv.Atoi(r.Header.Get(AttemptHeader))
	f := pawl.Fence{ItemID: r.Header.Get(ItemHeader), WorkerID: r.Header.Get(WorkerHeader), Attempt: attempt}
	if err != nil || f.ItemID == "" || f.WorkerID == "" {
		return nil, f, &pawl.Error{Code: pawl.CodeUnauthenticated, Op: "gate", Message: "say who acts: the token of a lease as " +
			"Authorization: Bearer, or " + strings.Join([]string{ItemHeader, WorkerHeader, AttemptHeader}, ", ")}
	}
	ctx := pawl.As(r.Context(), who)
	if opens && g.knows(f) {
		return ctx, f, nil
	}
	return ctx, f, g.Ledger.HoldsLease(ctx, f)
}

// knows reports whether an attempt has sent something through this process.
func (g *Gate) knows(f pawl.Fence) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.seen[attempt{f.ItemID, f.Attempt}] != nil
}

// others are headers by which some services take another method, or another path, than those of the request. A name
// with _ is one of them too: some services read it as -.
var others = []string{"x-http-method-override", "x-http-method", "x-method-override", "x-method", "x-original-method", "x-original-url",
	"x-original-uri", "x-original-path", "x-rewrite-url", "x-rewrite-uri", "x-rewrite-path", "x-override-url", "x-http-path-override",
	"x-envoy-original-path"}

// escapes are those of a path that was decoded once, and dotOrSlash those of them that may change its segments.
var (
	escapes    = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
	dotOrSlash = regexp.MustCompile(`(?i)%(25|2e|2f|5c|00)`)
)

// otherwise refuses a request that the upstream may take for another one than the gate does: for an effect that would
// have no record, no price and no approval.
func (c *call) otherwise() error {
	for name := range c.r.Header {
		if slices.Contains(others, plain(name)) {
			return &pawl.Error{Code: pawl.CodeInvalid, Op: "gate", Message: "the header " + name + " may give the request another method or path"}
		}
	}
	if clean := path.Clean(c.at.text); c.at.text != clean && c.at.text != clean+"/" {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: "gate", Message: "the path has an empty segment, . or .."}
	}
	if strings.Contains(c.at.text, `\`) {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: "gate", Message: `the path has a \, which some services read as a slash`}
	}
	if twice := escapes.FindString(c.at.text); twice != "" && (len(c.u.Effects)+len(c.u.Prices) > 0 || dotOrSlash.MatchString(c.at.text)) {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: "gate",
			Message: "the path is escaped twice (" + twice + "), and some services decode it twice"}
	}
	if strings.Contains(c.at.text, ";") && len(c.u.Effects)+len(c.u.Prices) > 0 { // without them, no path counts
		return &pawl.Error{Code: pawl.CodeInvalid, Op: "gate", Message: "the path has parameters (;), and effects or prices go by the path"}
	}
	return nil
}

// dropped are headers that are not passed on, in either direction: those of a connection, cookies, and what only the
// gate says.
var dropped = []string{"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade", "Content-Length", "Set-Cookie", EffectHeader, ReplayedHeader}

// private are headers of a request that do not go to the upstream, in the form of plain.
var private = []string{"authorization", "cookie", "accept-encoding", "forwarded", "proxy-authorization"}

// plain is the name of a header as services read it that take _ for -.
func plain(name string) string { return strings.ReplaceAll(strings.ToLower(name), "_", "-") }

// passed returns the headers of a request that go to the upstream: not those that are for Pawl, none of the caller's
// credentials, no idempotency key, and none that the gate sets, in whatever spelling.
func (u *upstream) passed(h http.Header) http.Header {
	out := http.Header{}
	copyHeaders(out, h)
	for name := range out {
		is := plain(name)
		if slices.Contains(private, is) || strings.HasPrefix(is, "pawl-") || strings.HasPrefix(is, "x-forwarded-") ||
			strings.Contains(strings.ReplaceAll(is, "-", ""), "idempoten") || slices.Contains(u.sets, is) {
			delete(out, name)
		}
	}
	return out
}
