package pawltest

import (
	"context"
	"time"

	"github.com/pawl-work/pawl/store"
)

// elapseGrace is how much later than asked Elapse still does what falls due.
const elapseGrace = time.Second

// Elapse moves the clock by d. What falls due on the way happens at its time, in order: ends of
// sleeps, of back-offs and of leases, deadlines, and ticks of schedules. Days pass in
// milliseconds, if little falls due in them. What falls due up to a second later happens too,
// and the clock then stands there: a worker adds the time that its handler took to the end of a
// sleep.
func (p *Pawl) Elapse(d time.Duration) {
	p.t.Helper()
	until, last := p.Now().Add(d), time.Time{}
	for {
		at, due := p.nextDue()
		if due && at.Equal(last) { // it could not be done yet
			at = p.Now().Add(time.Second)
			due = at.Before(until)
		}
		if !due || at.After(until.Add(elapseGrace)) {
			break
		}
		p.moveTo(at)
		last = at
	}
	p.moveTo(until)
}

// moveTo moves the clock to a time, unless it is there already, and does what is due.
func (p *Pawl) moveTo(at time.Time) {
	p.t.Helper()
	if now := p.Now(); at.After(now) {
		p.Advance(at.Sub(now))
	}
	_, err := p.Service.Sweep(context.Background())
	p.must(err)
}

// nextDue returns when something falls due next.
func (p *Pawl) nextDue() (next time.Time, due bool) {
	var d store.Due
	p.must(p.Engine.DB().View(context.Background(), func(ctx context.Context, tx store.Tx) (err error) {
		d, err = store.NextDue(ctx, tx)
		return err
	}))
	for _, us := range []*int64{d.At, d.Schedule} {
		if us == nil {
			continue
		}
		if at := time.UnixMicro(*us).UTC(); !due || at.Before(next) {
			next, due = at, true
		}
	}
	return next, due
}
