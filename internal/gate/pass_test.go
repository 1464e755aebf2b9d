package gate_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/gate"
	"github.com/pawl-work/pawl/pawltest"
)

// A request whose headers or path parameters may give it another method or path at the upstream is refused.
func TestARequestIsWhatItsLineSays(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	d := open(t, p, func(u *gate.Upstream) { u.Effects = []string{"DELETE /orders/*", "POST /charge"} })
	l := d.lease("w1")
	for _, name := range []string{"X-HTTP-Method-Override", "x-http-method", "X-Method-Override", "X-Original-Method", "X-Original-URL",
		"X-Rewrite-URL", "X_HTTP_Method_Override", "X-Original-URI"} {
		d.want(d.do("POST", "/orders/7", l.Token, `{}`, name, "DELETE"), 400, "invalid")
		d.want(d.do("POST", "/charge", l.Token, `{}`, name, "GET"), 400, "invalid")
	}
	for _, path := range []string{"/charge;x=1", "/charge;", "/x;y/../charge", "/orders;a/7", "/%2563harge", "/x%5ccharge", `/x%5C..%5Ccharge`,
		"/%25%36%33harge", "/orders%252f7"} {
		d.want(d.do("POST", path, l.Token, `{}`), 400, "invalid")
	}
	d.paid(0)
	d.want(d.do("POST", "/orders/7", l.Token, `{}`), 200, `{"charge":1}`)

	all := open(t, p, func(u *gate.Upstream) { u.Effects = nil }) // by the method: no path makes a call another one
	l = all.lease("w1")
	for _, path := range []string{"/a%5c..%5cb", "/a/%252e%252e/b", "/a%252F..", "/a/%25252e"} {
		all.want(all.do("GET", path, l.Token, ""), 400, "invalid")
	}
	all.want(all.do("GET", "/charges/a%2520b", l.Token, ""), 404, "") // a name with %20
	all.paid(0)
}

// No idempotency key of the caller goes to the upstream, nor another spelling of a header that the gate sets: some
// services read _ as -.
func TestACallerSetsNoHeaderOfTheGate(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	d := open(t, p, func(u *gate.Upstream) {
		u.Headers["X-Tenant"], u.KeyHeader = "ours", "Pay-Request"
	})
	var got http.Header
	d.pay.answer = func(_ http.ResponseWriter, r *http.Request, _ int) { got = r.Header }
	theirs := []string{"Idempotency_Key", "Idempotency-Key", "X-Idempotency-Key", "X_Idempotency_Key",
		"Idempotence-Key", "X-Tenant", "X_Tenant",
		"Pay_Request", "Pay-Request", "Authorization_", "Pawl_Item", "X_Forwarded_For", "Cookie"}
	l := d.lease("w1")
	for n, path := range []string{"/charge", "/other"} {
		var more []string
		for _, name := range theirs {
			more = append(more, name, "theirs")
		}
		d.want(d.do("POST", path, l.Token, fmt.Sprint(n), more...), 200, "")
		for name, values := range got {
			if values[0] == "theirs" && name != "Authorization_" {
				t.Errorf("%s: the upstream got the caller's %s", path, name)
			}
		}
		if got.Get("X-Tenant") != "ours" || got.Get("Pay-Request") == "" != (path == "/other") {
			t.Errorf("%s: the upstream got %v", path, got)
		}
	}
}

// A slash that came escaped ends no segment. It goes to the upstream as it came, and the request is another one than that
// with a plain slash. Because some services read both alike, it is an effect, and costs, if either reading does.
func TestAnEscapedSlashStays(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	if _, err := p.Engine.PutBudget(t.Context(), "eur", pawl.NewBudget{Unit: "EUR", Limit: 100}); err != nil {
		t.Fatal(err)
	}
	d := open(t, p, func(u *gate.Upstream) {
		u.URL += "/v1%2Fa/"
		u.Effects = []string{"DELETE /projects/*", "DELETE /orders/*"}
		u.Budget, u.Prices = "eur", []string{"DELETE /orders/* 1", "DELETE /* 5"}
	})
	var sent []string
	d.pay.answer = func(_ http.ResponseWriter, r *http.Request, _ int) { sent = append(sent, r.RequestURI) }
	l := d.lease("w1")
	hashes := map[string]bool{}
	for path, amount := range map[string]int64{"/projects/group%2Fapp": 0, "/projects/a%20b~%2C": 0,
		"/orders%2f7": 5, "/orders/7": 1} {
		f := d.effect(d.want(d.do("DELETE", path, l.Token, ""), 200, ""), pawl.EffectDone)
		if f.Amount != amount || sent[len(sent)-1] != "/v1%2Fa"+path {
			t.Errorf("%s costs %d and went out as %s", path, f.Amount, sent[len(sent)-1])
		}
		hashes[f.RequestHash] = true
	}
	if len(hashes) != 4 {
		t.Errorf("%d digests of 4 requests", len(hashes))
	}
	if a := d.do("DELETE", "/projects/group/app", l.Token, ""); a.StatusCode != 200 || a.Header.Get("Pawl-Effect") != "" {
		t.Errorf("a path of three segments is an effect: %d %v", a.StatusCode, a.Header)
	}
	for _, path := range []string{"/projects/..%2fx", "/projects/a%2F%2Fb", "/projects/%2E%2E", "/%2Forders/7"} {
		d.want(d.do("DELETE", path, l.Token, ""), 400, "invalid")
	}
	// A digest of an ordinary path is that of its decoded text: what was recorded stays recorded.
	none := sha256.Sum256(nil)
	if old := gate.Digest("pay", "DELETE", "/projects/a b~,", "", hex.EncodeToString(none[:])); !hashes[old] {
		t.Error("the digest of an ordinary path is another one")
	}
}

// What the gate says of an effect is its own, and what an upstream says for its connection alone is not passed on.
func TestAnUpstreamDoesNotSpeakForTheGate(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	d := open(t, p, nil)
	l := d.lease("w1")
	var got http.Header
	says := func(status int, kind string) {
		d.pay.answer = func(w http.ResponseWriter, r *http.Request, _ int) {
			got = r.Header
			for name, value := range map[string]string{"Pawl-Effect": "eff_other", "Pawl-Replayed": "true", "Connection": "x-hop, Other",
				"X-Hop": "1", "X-Own": "1", "Set-Cookie": "a=b", "Content-Type": kind} {
				w.Header().Set(name, value)
			}
			w.WriteHeader(status)
		}
	}
	for n, status := range []int{200, 200, 400} {
		says(status, []string{"text/plain", "text/event-stream", "text/plain"}[n])
		a := d.do("POST", "/charge", l.Token, fmt.Sprint(n), "X-Mine", "1", "X-Also", "1", "Connection", "x-mine")
		if id := a.Header.Get("Pawl-Effect"); id == "" || id == "eff_other" || a.Header.Get("Pawl-Replayed") != "" {
			t.Errorf("%d: the upstream speaks for the gate: %v", n, a.Header)
		}
		if a.Header.Get("Set-Cookie") != "" || a.Header.Get("X-Own") != "1" {
			t.Errorf("%d: the answer has the headers %v", n, a.Header)
		}
		if got.Get("X-Mine") != "" || got.Get("X-Also") != "1" {
			t.Errorf("%d: the upstream got the headers %v", n, got)
		}
	}
	// Of a connection that ends, net/http hides which headers are its own.
	read := d.do("POST", "/other", l.Token, "").Header
	if read.Get("Pawl-Effect") != "" || read.Get("X-Hop") != "" || read.Get("X-Own") != "1" {
		t.Errorf("a read has the headers %v", read)
	}
}
