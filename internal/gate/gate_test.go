package gate_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/gate"
	"github.com/pawl-work/pawl/pawltest"
)

// payments is a service that counts what it was paid, with and without keys.
type payments struct {
	mu       sync.Mutex
	paid     int
	keys     map[string]string
	answer   func(w http.ResponseWriter, r *http.Request, n int) // nil = 200 with the number of the charge
	lastAuth string
}

func (p *payments) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	p.lastAuth = r.Header.Get("Authorization")
	if r.Method == http.MethodGet {
		charge, known := p.keys[strings.TrimPrefix(r.URL.Path, "/charges/")]
		p.mu.Unlock()
		if !known {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, charge)
		return
	}
	p.paid++
	n := p.paid
	if p.keys == nil {
		p.keys = map[string]string{}
	}
	p.keys[r.Header.Get("Idempotency-Key")] = fmt.Sprintf(`{"charge":%d,"of":%s}`, n, body)
	answer := p.answer
	p.mu.Unlock()
	if answer != nil {
		answer(w, r, n)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Set-Cookie", "secret=1")
	fmt.Fprintf(w, `{"charge":%d}`, n)
}

func (p *payments) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.paid
}

// door is a gate to a service of payments.
type door struct {
	testing.TB
	p   *pawltest.Pawl
	pay *payments
	url string
}

func open(t testing.TB, p *pawltest.Pawl, change func(*gate.Upstream)) *door {
	t.Helper()
	pay := &payments{}
	stub := httptest.NewServer(pay)
	t.Cleanup(stub.Close)
	u := gate.Upstream{URL: stub.URL, Effects: []string{"POST /charge"}, KeyHeader: "Idempotency-Key",
		Headers: map[string]string{"Authorization": "env:PAY_KEY"}}
	if change != nil {
		change(&u)
	}
	g, err := gate.New(gate.Options{Ledger: p.Engine, Upstreams: map[string]gate.Upstream{"pay": u}, MaxBody: 1 << 20,
		Getenv: func(name string) string { return map[string]string{"PAY_KEY": "sk_secret"}[name] }})
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(g.Before(http.NotFoundHandler()))
	t.Cleanup(front.Close)
	return &door{t, p, pay, front.URL + "/gate/pay"}
}

// lease claims a new task, or its next attempt.
func (d *door) lease(worker string) pawl.Lease {
	d.Helper()
	list, err := d.p.Engine.Claim(d.Context(), pawl.ClaimRequest{WorkerID: worker})
	if err == nil && len(list) == 0 {
		if _, err = pawl.Create(d.Context(), d.p.Engine, pawl.NewTask{Type: "agent"}); err == nil {
			list, err = d.p.Engine.Claim(d.Context(), pawl.ClaimRequest{WorkerID: worker})
		}
	}
	if err != nil || len(list) != 1 {
		d.Fatal(len(list), err)
	}
	return list[0]
}

func (d *door) release(l pawl.Lease) {
	d.Helper()
	if rs, err := d.p.Engine.Release(d.Context(), []pawl.ReleaseCall{{Fence: l.Fence()}}); err != nil || rs[0].Err != nil {
		d.Fatal(rs, err)
	}
}

type answer struct {
	*http.Response
	text string
}

func (d *door) do(method, path, token, body string, headers ...string) answer {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), method, d.url+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.Fatal(err)
	}
	return answer{res, string(text)}
}

func (d *door) want(a answer, status int, text string) answer {
	d.Helper()
	if a.StatusCode != status || !strings.Contains(a.text, text) {
		d.Fatalf("the answer is %d %s, want %d %s", a.StatusCode, a.text, status, text)
	}
	return a
}

func (d *door) effect(a answer, state pawl.EffectState) pawl.EffectRecord {
	d.Helper()
	id := a.Header.Get("Pawl-Effect")
	f, err := d.p.Engine.GetEffect(d.Context(), id)
	if err != nil || f.State != state {
		d.Fatalf("the effect %q is %q, want %q: %v", id, f.State, state, err)
	}
	return f
}

func (d *door) paid(n int) {
	d.Helper()
	if got := d.pay.count(); got != n {
		d.Fatalf("%d payments, want %d", got, n)
	}
}

func TestAResumedAgentPaysOnce(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		l := d.lease("w1")
		a := d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`, "Idempotency-Key", "made by the SDK"), 200, `{"charge":1}`)
		f := d.effect(a, pawl.EffectDone)
		if d.pay.lastAuth != "Bearer sk_secret" && d.pay.lastAuth != "sk_secret" {
			t.Errorf("the upstream got %q", d.pay.lastAuth)
		}
		if raw, _ := json.Marshal(f); strings.Contains(string(raw), "secret") {
			t.Errorf("the effect shows a secret: %s", raw)
		}
		d.release(l)
		l = d.lease("w2")
		a = d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`, "Idempotency-Key", "another"), 200, `{"charge":1}`)
		if a.Header.Get("Pawl-Replayed") != "true" || a.Header.Get("Pawl-Effect") != f.ID || a.Header.Get("Content-Type") != "application/json" {
			t.Errorf("the headers are %v", a.Header)
		}
		d.paid(1)
		d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`), 200, `{"charge":2}`) // a second one, by the same attempt
		d.paid(2)
		d.want(d.do("GET", "/charges/x", l.Token, ""), 404, "")
	})
}

func TestAnEffectKeyIsTheIdentity(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		l := d.lease("w1")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`, "Pawl-Effect-Key", "order-1"), 200, `{"charge":1}`)
		a := d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`, "Pawl-Effect-Key", "order-1"), 200, `{"charge":1}`)
		if a.Header.Get("Pawl-Replayed") != "true" {
			t.Errorf("the headers are %v", a.Header)
		}
		d.want(d.do("POST", "/charge", l.Token, `{"amount":6}`, "Pawl-Effect-Key", "order-1"), 422, "key_reused")
		d.paid(1)
	})
}

// The header of the namespace is percent-encoded, as at the API.
func TestTheNamespaceAtTheGateIsEncoded(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		team := pawl.As(t.Context(), pawl.Caller{Namespace: "team ä"})
		if _, err := pawl.Create(team, p.Engine, pawl.NewTask{Type: "agent"}); err != nil {
			t.Fatal(err)
		}
		list, err := p.Engine.Claim(team, pawl.ClaimRequest{WorkerID: "w1"})
		if err != nil || len(list) != 1 {
			t.Fatal(list, err)
		}
		claim := []string{"Pawl-Item", list[0].ID, "Pawl-Worker", "w1", "Pawl-Attempt", "1", "Pawl-Namespace"}
		d.want(d.do("POST", "/charge", "", `{}`, append(claim, "team%20%C3%A4")...), 200, `{"charge":1}`)
		d.want(d.do("POST", "/charge", "", `{}`, append(claim, "team%2")...), 400, "invalid")
	})
}

func TestWhoActsAtTheGate(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		l := d.lease("w1")
		d.want(d.do("POST", "/charge", "", `{}`), 401, "unauthenticated")
		d.want(d.do("POST", "/charge", "pawl_wrong", `{}`), 401, "unauthenticated")
		d.want(d.do("POST", "/charge", "", `{}`, "Pawl-Item", l.ID, "Pawl-Worker", "w1", "Pawl-Attempt", "1"), 200, `{"charge":1}`)
		d.release(l)
		next := d.lease("w2")
		d.want(d.do("POST", "/charge", l.Token, `{"a":1}`), 409, "lease_lost")
		d.want(d.do("POST", "/charge", "", `{"a":1}`, "Pawl-Item", l.ID, "Pawl-Worker", "w1", "Pawl-Attempt", "1"), 409, "lease_lost")
		d.want(d.do("GET", "/charges/x", l.Token, ""), 409, "lease_lost")
		d.paid(1)
		d.url = strings.TrimSuffix(d.url, "pay") + "payy"
		d.want(d.do("POST", "/charge", next.Token, `{}`), 404, "did you mean pay?")
		if a := d.want(d.do("POST", "/charge", "", `{}`), 404, "not_found"); strings.Contains(a.text, "mean pay?") {
			t.Errorf("who has no lease is told the name of an upstream: %s", a.text)
		}
	})
}

func TestAnswersThatSayNothing(t *testing.T) {
	hijack := func(w http.ResponseWriter, half string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			_, _ = io.WriteString(conn, half)
			_ = conn.Close()
		}
	}
	for name, say := range map[string]func(w http.ResponseWriter, r *http.Request, n int){
		"500":       func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(500) },
		"no answer": func(w http.ResponseWriter, _ *http.Request, _ int) { hijack(w, "") },
		"half an answer": func(w http.ResponseWriter, _ *http.Request, _ int) {
			hijack(w, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
		},
	} {
		t.Run(name, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				d := open(t, p, nil)
				d.pay.answer = say
				l := d.lease("w1")
				f := d.effect(d.want(d.do("POST", "/charge", l.Token, `{}`), 409, "effect_unknown"), pawl.EffectUnknown)
				d.effect(d.want(d.do("POST", "/charge", l.Token, `{}`), 409, "effect_unknown"), pawl.EffectUnknown)
				d.paid(1)
				d.pay.answer = nil
				if _, err := p.Engine.ResolveEffect(t.Context(), f.ID, pawl.ResolveEffectCall{Outcome: pawl.DidNotHappen}); err != nil {
					t.Fatal(err)
				}
				d.want(d.do("POST", "/charge", l.Token, `{}`), 200, `{"charge":2}`)
			})
		})
	}
}

func TestAProbeFindsOut(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, func(u *gate.Upstream) { u.Probe = "/charges/{key}" })
		d.pay.answer = func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(500) }
		l := d.lease("w1")
		a := d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`), 200, `{"charge":1,"of":{"amount":5}}`)
		d.effect(a, pawl.EffectDone)
		d.paid(1)
	})
}

func TestAnAnswerOverTheBound(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		d.pay.answer = func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = w.Write(make([]byte, 2<<20)) }
		d.effect(d.want(d.do("POST", "/charge", d.lease("w1").Token, `{}`), 502, ""), pawl.EffectUnknown)
	})
}

func TestALargeAnswerIsABlob(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		large := strings.Repeat("x", 100_000)
		d.pay.answer = func(w http.ResponseWriter, _ *http.Request, _ int) { _, _ = io.WriteString(w, large) }
		l := d.lease("w1")
		a := d.do("POST", "/charge", l.Token, `{}`, "Pawl-Effect-Key", "k")
		again := d.do("POST", "/charge", l.Token, `{}`, "Pawl-Effect-Key", "k")
		if a.text != large || again.text != large {
			t.Errorf("the answers have %d and %d bytes", len(a.text), len(again.text))
		}
		if f := d.effect(a, pawl.EffectDone); len(f.Answer) > 1000 || !strings.Contains(string(f.Answer), "$blob") {
			t.Errorf("the record is %s", f.Answer)
		}
		d.paid(1)
	})
}

func TestAnApprovalAtTheGate(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, func(u *gate.Upstream) { u.Approve = true })
		l := d.lease("w1")
		a := d.want(d.do("POST", "/charge", l.Token, `{}`), 202, "waiting")
		id := a.Header.Get("Pawl-Effect")
		if a.Header.Get("Location") != "/v1/effects/"+id {
			t.Errorf("Location is %q", a.Header.Get("Location"))
		}
		d.paid(0)
		ann := pawl.As(t.Context(), pawl.Caller{ActorType: pawl.ActorUser, ActorID: "ann"})
		if _, err := p.Engine.ApproveEffect(ann, id, pawl.EffectDecision{}); err != nil {
			t.Fatal(err)
		}
		d.want(d.do("POST", "/charge", l.Token, `{}`), 200, `{"charge":1}`)
		a = d.want(d.do("POST", "/charge", l.Token, `{"b":1}`), 202, "waiting")
		if _, err := p.Engine.RejectEffect(ann, a.Header.Get("Pawl-Effect"), pawl.EffectDecision{}); err != nil {
			t.Fatal(err)
		}
		d.want(d.do("POST", "/charge", l.Token, `{"b":1}`), 403, "forbidden")
		d.paid(1)
	})
}

func TestTheGateSpendsABudget(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if _, err := p.Engine.PutBudget(t.Context(), "eur", pawl.NewBudget{Unit: "EUR", Limit: 10}); err != nil {
			t.Fatal(err)
		}
		d := open(t, p, func(u *gate.Upstream) { u.Budget, u.Amount = "eur", "/amount" })
		l := d.lease("w1")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":7}`), 200, "")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":4}`), 429, "budget_exhausted")
		d.want(d.do("POST", "/charge", l.Token, `{}`), 400, "invalid")
		d.paid(1)
		if b, err := p.Engine.GetBudget(t.Context(), "eur"); err != nil || b.Spent != 7 || b.Reserved != 0 {
			t.Errorf("the budget is %+v, %v", b, err)
		}
	})
}

// Each call has its own price: a fixed one, or a number of its body. What failed costs nothing.
func TestCallsHavePrices(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		if _, err := p.Engine.PutBudget(t.Context(), "eur", pawl.NewBudget{Unit: "EUR", Limit: 30}); err != nil {
			t.Fatal(err)
		}
		d := open(t, p, func(u *gate.Upstream) {
			u.Effects, u.Budget = nil, "eur"
			u.Prices = []string{"POST /mail/* 2", "POST /order /items/0/price", "DELETE /** 1"}
		})
		l := d.lease("w1")
		spent := func(want int64) {
			t.Helper()
			if b, err := p.Engine.GetBudget(t.Context(), "eur"); err != nil || b.Spent != want || b.Reserved != 0 {
				t.Errorf("the budget is %+v, want %d spent: %v", b, want, err)
			}
		}
		d.want(d.do("POST", "/mail/ann", l.Token, `{}`), 200, "")
		spent(2)
		d.want(d.do("POST", "/order", l.Token, `{"items":[{"price":20}]}`), 200, "")
		spent(22)
		d.want(d.do("POST", "/other", l.Token, `{}`), 200, "") // has no price
		spent(22)
		d.want(d.do("POST", "/order", l.Token, `{"items":[{"price":9}]}`), 429, "budget_exhausted")
		for _, body := range []string{`{"items":[{"price":1,"price":9}]}`,
			`{"items":[{"price":1}],"payload":{"a":1,"a":2}}`, `{"items":[]}`, `{"items":[{"price":-1}]}`, `price=1`,
			`{"items":[{"price":1}]} {"items":[{"price":9}]}`} {
			d.want(d.do("POST", "/order", l.Token, body), 400, "invalid")
		}
		d.paid(3)
		d.pay.answer = func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(402) }
		d.want(d.do("DELETE", "/order/1", l.Token, ""), 402, "")
		spent(22)
	})
	for _, u := range []gate.Upstream{{Prices: []string{"POST /a 1"}}, {Budget: "b", Prices: []string{"POST /a"}},
		{Budget: "b", Prices: []string{"/a 1"}}, {Budget: "b", Prices: []string{"POST /a 0"}}, {Budget: "b"}, {Amount: "1"}} {
		u.URL = "http://localhost"
		if _, err := gate.New(gate.Options{Upstreams: map[string]gate.Upstream{"a": u}}); err == nil {
			t.Errorf("the upstream %+v is accepted", u)
		}
	}
}

func TestAnUpstreamThatCannotBeReached(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		none, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		none.Close()
		d := open(t, p, func(u *gate.Upstream) { u.URL = "http://" + none.Addr().String() })
		l := d.lease("w1")
		d.effect(d.want(d.do("POST", "/charge", l.Token, `{}`), 502, ""), pawl.EffectFailed)
		d.effect(d.want(d.do("POST", "/charge", l.Token, `{}`), 502, ""), pawl.EffectFailed)
	})
}

// What the upstream answers is recorded although the caller is gone, and although its attempt is over.
func TestTheGateSendsOnWithoutItsCaller(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		got, answerNow := make(chan struct{}), make(chan struct{})
		d.pay.answer = func(w http.ResponseWriter, _ *http.Request, n int) {
			close(got)
			<-answerNow
			fmt.Fprintf(w, `{"charge":%d}`, n)
		}
		l := d.lease("w1")
		ctx, gone := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "POST", d.url+"/charge", strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+l.Token)
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if res, err := http.DefaultClient.Do(r); err == nil {
				res.Body.Close()
			}
		}()
		<-got
		gone()
		<-ended
		d.release(l)
		list, err := p.Engine.ListEffects(t.Context(), pawl.EffectFilter{})
		if err != nil || list.Items[0].State != pawl.EffectOpen {
			t.Fatal(list, err)
		}
		close(answerNow)
		for range 500 {
			if list, err = p.Engine.ListEffects(t.Context(), pawl.EffectFilter{}); err == nil && list.Items[0].State == pawl.EffectDone {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		d.want(d.do("POST", "/charge", d.lease("w2").Token, `{}`), 200, `{"charge":1}`)
		d.paid(1)
	})
}

// The effect of a gate that dies is unknown when its lease is over.
func TestAGateThatDies(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		l := d.lease("w1")
		call := pawl.OpenEffectCall{ItemID: l.ID, WorkerID: "w1", Attempt: 1, Name: "n", RequestHash: "h", LeaseSeconds: 15}
		keep := pawl.KeepEffectCall{ItemID: l.ID, WorkerID: "w1", Attempt: 1, LeaseSeconds: 15}
		out, err := p.Engine.OpenEffect(t.Context(), call)
		if err != nil || !out.Send {
			t.Fatal(out, err)
		}
		p.Advance(14 * time.Second)
		if _, err := p.Engine.KeepEffect(t.Context(), out.ID, keep); err != nil {
			t.Fatal(err)
		}
		p.Advance(14 * time.Second)
		for _, want := range []pawl.EffectState{pawl.EffectOpen, pawl.EffectUnknown} {
			if _, err := p.Engine.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if f, err := p.Engine.GetEffect(t.Context(), out.ID); err != nil || f.State != want {
				t.Fatalf("the effect is %s, want %s: %v", f.State, want, err)
			}
			p.Advance(2 * time.Second)
		}
		if _, err := p.Engine.KeepEffect(t.Context(), out.ID, keep); pawl.CodeOf(err) != pawl.CodeLeaseLost {
			t.Errorf("a lease that is over was extended: %v", err)
		}
	})
}

// A later attempt that sends something else, while an effect of an earlier one has no counterpart, asks.
func TestAChangedRequestAsks(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		l := d.lease("w1")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`), 200, "")
		d.release(l)
		l = d.lease("w2")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":6}`), 202, "waiting")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`), 200, `{"charge":1}`)
		d.want(d.do("POST", "/charge", l.Token, `{"amount":7}`), 200, `{"charge":2}`)
		d.paid(2)
	})
}

// Only the effect itself is its counterpart: neither another request under its key, nor one that was never sent, nor one
// that failed.
func TestWhatIsACounterpart(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		l := d.lease("w1")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`, "Pawl-Effect-Key", "order-1"), 200, "")
		d.release(l)
		l = d.lease("w2")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":6}`, "Pawl-Effect-Key", "order-1"), 422, "key_reused")
		a := d.want(d.do("POST", "/charge", l.Token, `{"amount":6}`, "Pawl-Effect-Key", "order-2"), 202, "waiting") // is asked, never sent
		d.paid(1)
		d.release(l)
		l = d.lease("w3")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`, "Pawl-Effect-Key", "order-1"), 200, `{"charge":1}`)
		d.want(d.do("POST", "/charge", l.Token, `{"amount":7}`, "Pawl-Effect-Key", "order-3"), 200, `{"charge":2}`)
		if _, err := p.Engine.ApproveEffect(t.Context(), a.Header.Get("Pawl-Effect"), pawl.EffectDecision{}); err != nil {
			t.Fatal(err)
		}
		d.want(d.do("POST", "/charge", l.Token, `{"amount":6}`, "Pawl-Effect-Key", "order-2"), 200, `{"charge":3}`)
		d.release(l)
		l = d.lease("w4")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":8}`), 202, "waiting") // three have no counterpart
		d.paid(3)
	})
}

// An upstream with changed: new sends what no earlier attempt has sent.
func TestAChangedRequestIsNew(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, func(u *gate.Upstream) { u.Changed = "new" })
		l := d.lease("w1")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`), 200, "")
		d.release(l)
		d.want(d.do("POST", "/charge", d.lease("w2").Token, `{"amount":6}`), 200, `{"charge":2}`)
	})
}

// A fork of a task finds the effects that the original has sent through the gate, and does not act again by itself.
func TestAForkDoesNotPayAgainAtTheGate(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		l := d.lease("w1")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`), 200, `{"charge":1}`)
		if _, err := pawl.Complete(t.Context(), p.Engine, l.Fence(), nil); err != nil {
			t.Fatal(err)
		}
		if rs, err := p.Engine.ForkTasks(t.Context(), []pawl.TaskFork{{TaskID: l.TaskID}}); err != nil || rs[0].Err != nil {
			t.Fatal(rs, err)
		}
		l = d.lease("w2")
		d.want(d.do("POST", "/charge", l.Token, `{"amount":6}`), 202, "waiting")
		a := d.want(d.do("POST", "/charge", l.Token, `{"amount":5}`), 200, `{"charge":1}`)
		if a.Header.Get("Pawl-Replayed") != "true" {
			t.Errorf("the headers are %v", a.Header)
		}
		d.want(d.do("POST", "/charge", l.Token, `{"amount":7}`), 200, `{"charge":2}`)
		d.paid(2)
	})
}

func TestARefusedEffectMayBeSentAgain(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		d := open(t, p, nil)
		d.pay.answer = func(w http.ResponseWriter, _ *http.Request, _ int) { w.WriteHeader(402); fmt.Fprint(w, "no money") }
		l := d.lease("w1")
		d.effect(d.want(d.do("POST", "/charge", l.Token, `{}`), 402, "no money"), pawl.EffectFailed)
		d.pay.answer = nil
		f := d.effect(d.want(d.do("POST", "/charge", l.Token, `{}`), 200, ""), pawl.EffectDone)
		if f.Sendings != 2 {
			t.Errorf("sent %d times", f.Sendings)
		}
	})
}

var _ gate.Ledger = (*engine.Engine)(nil)

// The claim of a token is read once for all requests. Another token of its attempt is refused, and so is the token when
// the claim has ended.
func TestAClaimThatIsRememberedIsStillChecked(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			var statements atomic.Int64
			p := pawltest.OpenWith(t, which, engine.Options{Statement: func(string) { statements.Add(1) }})
			d := open(t, p, nil)
			l := d.lease("w1")
			d.want(d.do("POST", "/charge", l.Token, `{"amount":1}`), 200, `{"charge":1}`)
			most := map[pawltest.Database]int64{pawltest.SQLite: 6, pawltest.Postgres: 2}[which]
			before := statements.Load()
			d.want(d.do("POST", "/charge", l.Token, `{"amount":2}`), 200, `{"charge":2}`)
			if n := statements.Load() - before; n > most {
				t.Errorf("a request is %d statements, want at most %d", n, most)
			}
			end := "0"
			if strings.HasSuffix(l.Token, end) {
				end = "1"
			}
			d.want(d.do("POST", "/charge", l.Token[:len(l.Token)-1]+end, `{"amount":3}`), 401, "unauthenticated")
			if rs, err := p.Engine.Complete(t.Context(), []pawl.CompleteCall{{Fence: l.Fence()}}); err != nil || rs[0].Err != nil {
				t.Fatal(rs, err)
			}
			d.want(d.do("POST", "/charge", l.Token, `{"amount":4}`), 409, "lease_lost")
			d.paid(2)
		})
	}
}
