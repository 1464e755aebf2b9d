package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// clockApart is how far the database's clock may differ from this machine's.
const clockApart = time.Second

// setup is what the server reported about itself, between two readings of this machine's
// clock.
type setup struct {
	asked, now, answered time.Time
	commit               string // synchronous_commit
	async, unseen        int    // standbys
}

// warnings lists settings of the server that put a promise at risk.
func (d *db) warnings(ctx context.Context) ([]store.Warning, error) {
	s := setup{asked: clock.Now()}
	if err := d.cold.QueryRow(ctx, feedSQL["set-up"]).Scan(&s.now, &s.commit, &s.async, &s.unseen); err != nil {
		return nil, classify(err)
	}
	s.answered = clock.Now()
	return s.warnings(), nil
}

func (s setup) warnings() (out []store.Warning) {
	if s.commit == "off" {
		out = append(out, store.Warning{Name: "synchronous_commit",
			Found: "synchronous_commit is off: a crash of the server loses work that was acknowledged", Advice: "set it to on for Pawl's login " +
				"(docs/high-availability.md)"})
	}
	if s.async > 0 {
		out = append(out, store.Warning{Name: "asynchronous standby",
			Found: fmt.Sprintf("%d standbys follow asynchronously: a failover to one of them loses work that was acknowledged",
				s.async), Advice: "name them in synchronous_standby_names, or never promote them (docs/high-availability.md)"})
	}
	if s.unseen > 0 {
		out = append(out, store.Warning{Name: "standbys unseen",
			Found: fmt.Sprintf("this login may not see whether %d standbys are synchronous", s.unseen), Advice: "grant pg_monitor to Pawl's login"})
	}
	if early, late := s.asked.Sub(s.now), s.now.Sub(s.answered); early > clockApart || late > clockApart {
		out = append(out, store.Warning{Name: "clock", Found: fmt.Sprintf("the database's clock is %s from this machine's",
			max(early, late).Round(time.Millisecond)), Advice: "keep both in time with NTP; leases end by the database's clock, also after a " +
			"failover to another host"})
	}
	return out
}
