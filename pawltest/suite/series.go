package suite

import (
	"time"

	"github.com/pawl-work/pawl"
)

var series = noun{"counters", []promise{
	{"each minute counts what happened to the items of each queue", func(w *fixture) {
		w.advance(time.Minute - w.now().Sub(w.now().Truncate(time.Minute))) // to the beginning of a minute
		begin := w.now().Truncate(time.Minute)
		other := w.in("other")
		other.create(pawl.NewTask{Type: "a", Payload: raw(`1`)})
		w.oneItem()
		w.create(pawl.NewTask{Type: "b", Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`2`)}}})
		cancelled := w.create(pawl.NewTask{Type: "b", Items: []pawl.NewItem{{Input: raw(`1`)}, {Input: raw(`2`)}}})
		w.cancel(cancelled.ID)
		w.create(pawl.NewTask{Type: "c", Payload: raw(`1`)})
		l := w.claimOf("a")
		w.advance(20 * time.Second)
		w.failNow(l, "no")
		w.advance(10 * time.Second)
		l = w.claimOf("a")
		w.advance(2 * time.Second)
		w.complete(l, `1`)

		w.advance(time.Minute)
		failed := w.claimOf("c")
		w.advance(time.Second)
		w.failPermanently(failed, "never")
		w.bury(failed.TaskID)
		w.retry(failed.TaskID)
		expired := w.claimOf("c")
		w.advance(expired.LeaseExpiresAt.Sub(w.now()) + time.Second)
		w.sweep()

		a := w.seriesOf(pawl.SeriesQuery{Since: begin, Types: []string{"a"}})
		w.same(len(a), 1, "minutes of a")
		w.same(counted(a[0]), pawl.SeriesPoint{At: begin, Created: 1, Claimed: 2, Completed: 1, Failed: 1}, "a")
		w.same([]any{a[0].Wait.Count, a[0].Run.Count, a[0].Run.Sum}, []any{int64(2), int64(2), 22.0}, "times of a")
		w.same(a[0].Wait.Sum >= 10, true, "the wait after the failure")

		b := w.seriesOf(pawl.SeriesQuery{Since: begin, Types: []string{"b"}})
		w.same(counted(b[0]), pawl.SeriesPoint{At: begin, Created: 4, Cancelled: 2}, "b")
		c := w.seriesOf(pawl.SeriesQuery{Since: begin, Types: []string{"c"}, Step: time.Minute})
		w.same(len(c), 3, "minutes of c")
		w.same(counted(c[0]), pawl.SeriesPoint{At: begin, Created: 1}, "c")
		w.same(counted(c[1]), pawl.SeriesPoint{At: begin.Add(time.Minute), Claimed: 2, Failed: 1, Retried: 1, DeadLettered: 1}, "c")
		w.same(counted(c[2]), pawl.SeriesPoint{At: c[2].At, Expired: 1}, "c")

		all, err := w.svc.Series(w.ctx, pawl.SeriesQuery{Since: begin, Step: time.Hour})
		w.ok(err, "series")
		w.same([]any{len(all), all[0].Type, all[2].Type, all[0].Step}, []any{3, "a", "c", 3600}, "all types")
		w.same(len(other.seriesOf(pawl.SeriesQuery{Since: begin})), 1, "minutes of the other namespace")
	}},
	{"a question for too many points is refused", func(w *fixture) {
		for _, q := range []pawl.SeriesQuery{
			{Step: time.Second},
			{Step: -time.Minute},
			{Since: w.now().Add(time.Minute)},
			{Since: w.now(), Until: w.now()},
			{Since: w.now().Add(-400 * 24 * time.Hour)},
			{Types: make([]string, pawl.MaxSeriesTypes+1)},
		} {
			for i := range q.Types {
				q.Types[i] = "a"
			}
			_, err := w.svc.Series(w.ctx, q)
			w.refused(err, pawl.CodeInvalid)
		}
	}},
	{"counters are removed after 14 days", func(w *fixture) {
		begin := w.now()
		w.oneItem()
		w.same(len(w.seriesOf(pawl.SeriesQuery{Since: begin})), 1, "minutes")
		w.advance(13 * 24 * time.Hour)
		w.sweep()
		w.same(len(w.seriesOf(pawl.SeriesQuery{Since: begin})), 1, "minutes after 13 days")
		w.advance(24*time.Hour + time.Minute)
		w.sweep()
		w.same(len(w.seriesOf(pawl.SeriesQuery{Since: begin})), 0, "minutes after 14 days")
	}},
}}

// seriesOf returns the points of a question for one type.
func (w *fixture) seriesOf(q pawl.SeriesQuery) []pawl.SeriesPoint {
	w.Helper()
	all, err := w.svc.Series(w.ctx, q)
	w.ok(err, "series")
	if len(all) == 0 {
		return nil
	}
	w.same(len(all), 1, "types")
	return all[0].Points
}

// counted returns a point without its times and backlog.
func counted(p pawl.SeriesPoint) pawl.SeriesPoint {
	p.Wait, p.Run, p.Backlog = pawl.Timing{}, pawl.Timing{}, nil
	return p
}
