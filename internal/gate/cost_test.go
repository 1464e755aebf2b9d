package gate_test

import (
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/gate"
	"github.com/pawl-work/pawl/pawltest"
)

// What an effect has cost is what its answer says, at most what was reserved. An answer that does not say it costs that.
func TestAnAnswerSaysWhatItHasCost(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if _, err := p.Engine.PutBudget(t.Context(), "tokens", pawl.NewBudget{Unit: "tokens", Limit: 1000}); err != nil {
			t.Fatal(err)
		}
		d := open(t, p, func(u *gate.Upstream) {
			u.Budget, u.Amount, u.Charge = "tokens", "/max", []string{"/usage/in", "/usage/out"}
		})
		l := d.lease("w1")
		spent := int64(0)
		for i, c := range []struct {
			answer string
			cost   int64
		}{
			{`{"usage":{"in":3,"out":4}}`, 7}, {`{"usage":{"in":0,"out":0}}`, 0}, {`{"usage":{"in":6,"out":4}}`, 10},
			{`{"usage":{"in":600,"out":4}}`, 10}, {`{"usage":{"in":-6,"out":7}}`, 10}, {`{"usage":{"in":1}}`, 10},
			{`{"usage":{"in":1,"in":1,"out":1}}`, 10}, {`{"usage":{"in":1.5,"out":1}}`, 10}, {`{"usage":{"in":"1","out":1}}`, 10},
			{`{"usage":{"in":1,"out":1}} {}`, 10}, {`{"usage":{"in":1,"out":99999999999999999999}}`, 10},
			{`{"usage":{"in":9223372036854775807,"out":9223372036854775807}}`, 10}, {`no JSON`, 10}, {``, 10},
			{strings.Repeat("[", 1<<15), 10}, {`{"pad":[` + strings.Repeat("1,", 1<<15) + `1],"usage":{"in":1,"out":1}}`, 2},
		} {
			d.pay.answer = func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, c.answer) }
			d.want(d.do("POST", "/charge", l.Token, `{"max":10,"n":`+strconv.Itoa(i)+`}`), 200, "")
			spent += c.cost
			if b, err := p.Engine.GetBudget(t.Context(), "tokens"); err != nil || b.Spent != spent || b.Reserved != 0 {
				t.Errorf("after %.60s: %d of %d spent, %d reserved, %v", c.answer, b.Spent, spent, b.Reserved, err)
				spent = b.Spent
			}
		}
	})
	for _, u := range []gate.Upstream{{Charge: []string{"/a"}}, {Budget: "b", Amount: "1", Charge: []string{"a"}},
		{Budget: "b", Charge: []string{"/a"}}, {Budget: "b", Amount: "1", Charge: make([]string, 11)}} {
		u.URL = "http://localhost"
		if _, err := gate.New(gate.Options{Upstreams: map[string]gate.Upstream{"a": u}}); err == nil {
			t.Errorf("the upstream %+v is accepted", u)
		}
	}
}
