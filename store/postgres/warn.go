package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// clockApart is how far the database's clock may be from this machine's.
const clockApart = time.Second

// warnings says what of the server's set-up puts a promise at risk.
func (d *db) warnings(ctx context.Context) ([]store.Warning, error) {
	var commit string
	var async, unseen int
	var now time.Time
	asked := clock.Now()
	err := d.cold.QueryRow(ctx, feedSQL["set-up"]).Scan(&now, &commit, &async, &unseen)
	if err != nil {
		return nil, classify(err)
	}
	answered := clock.Now()
	var out []store.Warning
	if commit == "off" {
		out = append(out, store.Warning{Name: "synchronous_commit", Found: "synchronous_commit is off: a crash of the server loses work that was acknowledged", Advice: "set it to on for Pawl's login (docs/high-availability.md)"})
	}
	if async > 0 {
		out = append(out, store.Warning{Name: "asynchronous standby", Found: fmt.Sprintf("%d standbys follow asynchronously: a failover to one of them loses work that was acknowledged", async), Advice: "name them in synchronous_standby_names, or never promote them (docs/high-availability.md)"})
	}
	if unseen > 0 {
		out = append(out, store.Warning{Name: "standbys unseen", Found: fmt.Sprintf("this login may not see whether %d standbys are synchronous", unseen), Advice: "grant pg_monitor to Pawl's login"})
	}
	if early, late := asked.Sub(now), now.Sub(answered); early > clockApart || late > clockApart {
		out = append(out, store.Warning{Name: "clock", Found: fmt.Sprintf("the database's clock is %s from this machine's", max(early, late).Round(time.Millisecond)), Advice: "keep both in time with NTP; leases end by the database's clock, also after a failover to another host"})
	}
	return out, nil
}
