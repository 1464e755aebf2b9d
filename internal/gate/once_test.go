package gate_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/gate"
	"github.com/pawl-work/pawl/pawltest"
)

// A connection that was kept open and ends without an answer is not tried again, although the request has a key, by which
// net/http would send it once more, and whether or not it has a body.
func TestARequestIsNotSentAgainOnAKeptConnection(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for n, body := range []string{`{"amount":5}`, ""} {
			d := open(t, p, nil)
			l := d.lease(fmt.Sprint("w", n))
			d.want(d.do("POST", "/charge", l.Token, `{"amount":1}`), 200, `{"charge":1}`)
			d.want(d.do("GET", "/charges/x", l.Token, ""), 404, "") // leaves a connection to the upstream
			d.pay.mu.Lock()
			d.pay.answer = func(http.ResponseWriter, *http.Request, int) { panic(http.ErrAbortHandler) }
			d.pay.mu.Unlock()
			a := d.want(d.do("POST", "/charge", l.Token, body, "Pawl-Effect-Key", fmt.Sprint("order-", n)), 409, "effect_unknown")
			d.effect(a, pawl.EffectUnknown)
			d.paid(2)
		}
	})
}

// Effects go through connections that were kept, also to a service that has closed the one before.
func TestEffectsKeepTheirConnection(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		var opened atomic.Int64
		pay := &payments{}
		stub := httptest.NewUnstartedServer(pay)
		stub.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				opened.Add(1)
			}
		}
		stub.Start()
		t.Cleanup(stub.Close)
		d := open(t, p, func(u *gate.Upstream) { u.URL = stub.URL })
		l := d.lease("w")
		const many = 20
		for n := 1; n <= many; n++ {
			a := d.want(d.do("POST", "/charge", l.Token, fmt.Sprintf(`{"amount":%d}`, n)), 200, fmt.Sprintf(`{"charge":%d}`, n))
			if a.ContentLength != int64(len(a.text)) {
				t.Errorf("an answer of %d bytes has the length %d", len(a.text), a.ContentLength)
			}
		}
		if n := opened.Load(); n == 0 || n == many { // a pause of this machine may end some
			t.Errorf("%d effects took %d connections", many, n)
		}
		stub.Config.SetKeepAlivesEnabled(false)
		d.want(d.do("POST", "/charge", l.Token, `{"amount":21}`), 200, `{"charge":21}`)
		d.want(d.do("POST", "/charge", l.Token, `{"amount":22}`), 200, `{"charge":22}`)
	})
}

// A path that the upstream may read as another one is refused: it could be that of an effect.
func TestPathsThatMayBeOthersAreRefused(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, func(u *gate.Upstream) { u.URL += "/v1" })
		l := d.lease("w1")
		for _, path := range []string{"/x/../charge", "/./charge", "//charge", "/../admin", "/x/%2e%2e/charge", "/%2Fcharge"} {
			d.want(d.do("POST", path, l.Token, `{}`), 400, "invalid")
		}
		d.paid(0)
		a := d.want(d.do("POST", "/charge/", l.Token, `{}`), 200, `{"charge":1}`) // is the effect too
		d.effect(a, pawl.EffectDone)
	})
}
