package gate_test

import (
	"testing"

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
	for _, path := range []string{"/charge;x=1", "/charge;", "/x;y/../charge", "/orders;a/7"} {
		d.want(d.do("POST", path, l.Token, `{}`), 400, "invalid")
	}
	d.paid(0)
	d.want(d.do("POST", "/orders/7", l.Token, `{}`), 200, `{"charge":1}`)
}
