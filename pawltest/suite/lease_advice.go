package suite

import (
	"time"

	"github.com/pawl-work/pawl"
)

var leaseAdvice = noun{"suggested leases", []promise{
	{"a lease that would have avoided expiries is suggested, and changes nothing", func(w *fixture) {
		_, err := w.svc.PutTypes(w.ctx, []pawl.Type{{Name: "slow", LeaseSeconds: 5}})
		w.ok(err, "put")
		w.create(pawl.NewTask{Type: "slow"})
		lost := w.claimOf("slow")
		w.expire(lost)
		w.advance(time.Minute)
		l := w.claims(pawl.ClaimRequest{WorkerID: "w2", Types: []string{"slow"}, LeaseSeconds: 60})[0]
		w.advance(8 * time.Second)
		w.complete(l, `1`)
		w.create(pawl.NewTask{Type: "slow"}) // one that a killed worker held
		w.expire(w.claimOf("slow"))

		a := w.adviceOf("slow")
		w.same(a.Current, pawl.LeaseSetting{LeaseSeconds: 5, HeartbeatSeconds: 0.5}, "current")
		w.same(a.Suggested, pawl.LeaseSetting{LeaseSeconds: 10, HeartbeatSeconds: 1}, "suggested")
		w.same(a.Evidence, pawl.LeaseEvidence{N: 1, P50: 8, P95: 8, P99: 8, Expiries: 2, Avoided: 1}, "evidence")
		t, err := w.svc.GetType(w.ctx, "slow", 0)
		w.ok(err, "get")
		w.same(t.LeaseSeconds, 5, "the lease of the type")
		all, err := w.in("other").svc.SuggestLeases(w.in("other").ctx)
		w.ok(err, "suggest")
		w.same(len(all), 0, "types of another namespace")
	}},
	{"no lease is suggested without evidence", func(w *fixture) {
		a := w.adviceOf("idle")
		w.same([]any{a.Suggested, a.Current.LeaseSeconds, a.Command, a.Evidence.N}, []any{a.Current, 300, "", 0}, "a type without attempts")
		w.create(pawl.NewTask{Type: "killed"})
		w.expire(w.claimOf("killed"))
		w.advance(time.Minute)
		l := w.claimOf("killed")
		w.advance(time.Second)
		w.complete(l, `1`)
		a = w.adviceOf("killed")
		w.same([]any{a.Suggested, a.Evidence.Expiries, a.Evidence.Avoided}, []any{a.Current, 1, 0}, "a worker that was killed")
		_, err := w.svc.SuggestLeases(w.ctx, make([]string, pawl.MaxSeriesTypes+1)...)
		w.refused(err, pawl.CodeInvalid)
	}},
	{"a type whose attempts all expire is advised to try twice the lease", func(w *fixture) {
		_, err := w.svc.PutTypes(w.ctx, []pawl.Type{{Name: "never ends", LeaseSeconds: 40}})
		w.ok(err, "put")
		w.create(pawl.NewTask{Type: "never ends"})
		w.expire(w.claimOf("never ends"))
		a := w.adviceOf("never ends")
		w.atLeast(int64(a.Suggested.LeaseSeconds), 80, "suggested")
		w.same([]any{a.Evidence.Expiries, a.Evidence.Avoided, a.Evidence.N}, []any{1, 0, 0}, "evidence")
	}},
}}

func (w *fixture) adviceOf(typ string) pawl.LeaseAdvice {
	w.Helper()
	all, err := w.svc.SuggestLeases(w.ctx, typ)
	w.ok(err, "suggest")
	w.same(len(all), 1, "types")
	return all[0]
}
