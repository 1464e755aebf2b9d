package sweep

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// unsaved adds up statistics that have no row yet: those of timers alone, and those of a
// pass that lost the database. The next row includes them.
type unsaved struct {
	mu  sync.Mutex
	sum pawl.SweepStats
}

func (c *unsaved) add(s pawl.SweepStats) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, n := range numbers(&c.sum) {
		*n += *numbers(&s)[i]
	}
}

func (c *unsaved) take() pawl.SweepStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	sum := c.sum
	c.sum = pawl.SweepStats{}
	return sum
}

// numbers returns all counters of a sweep.
func numbers(s *pawl.SweepStats) []*int64 {
	return []*int64{&s.ExpiredFound, &s.Recovered, &s.Failed, &s.CheckpointsCreated, &s.Errors, &s.ScanDurationMS,
		&s.Due, &s.GivenUp, &s.Buried, &s.Stale, &s.TasksPruned, &s.KeysPruned, &s.Checkpoints, &s.SignalsPruned}
}

// report stores the statistics of the pass together with the unsaved ones.
func (p *pass) report(ctx context.Context) error {
	p.unsaved.add(p.stats)
	row := p.unsaved.take()
	err := p.do(ctx, func(ctx context.Context, tx store.Tx, now int64) error {
		next, err := store.NextDue(ctx, tx)
		if err != nil {
			return err
		}
		if p.stats.StartedAt.IsZero() {
			p.stats.StartedAt = time.UnixMicro(now).UTC()
		}
		if next.At != nil {
			p.stats.NextExpiryAt = time.UnixMicro(max(*next.At, now)).UTC()
		}
		row.StartedAt, row.NextExpiryAt = p.stats.StartedAt, p.stats.NextExpiryAt
		return recordSweep(ctx, tx, p.Server, row)
	})
	if err != nil {
		p.unsaved.add(row)
	}
	return err
}

// foldStats sums up statistics older than RetainSweeps into one row, so that the totals stay.
func (p *pass) foldStats(ctx context.Context) error {
	if p.Options.RetainSweeps <= 0 {
		return nil
	}
	_, err := store.Sweeping{DB: p.DB, Limit: batch}.Repeat(ctx, func(ctx context.Context, tx store.Tx, now int64, limit int) (int64, error) {
		return foldSweeps(ctx, tx, ago(now, p.Options.RetainSweeps), limit)
	})
	return p.logError(ctx, "statistics", err)
}

// logError counts and logs the error of a step. The pass continues with the next step,
// unless the database is gone or the caller gave up: then logError returns the error.
func (p *pass) logError(ctx context.Context, what string, err error) error {
	if err == nil || mustStop(ctx, err) {
		return err
	}
	p.stats.Errors++
	p.Log.ErrorContext(ctx, "a step of the sweep failed", "step", what, "error", err)
	return nil
}

// sweepDetail is what a row of sweeps stores besides its six numbers.
type sweepDetail struct {
	Due         int64 `json:"due,omitempty"`
	GivenUp     int64 `json:"given_up,omitempty"`
	Buried      int64 `json:"buried,omitempty"`
	Stale       int64 `json:"stale,omitempty"`
	TasksPruned int64 `json:"tasks_pruned,omitempty"`
	KeysPruned  int64 `json:"keys_pruned,omitempty"`
	Checkpoints int64 `json:"pruned,omitempty"`
	Signals     int64 `json:"signals_pruned,omitempty"`
	NextAt      int64 `json:"next_at,omitempty"` // microseconds
}

// recordSweep stores the statistics of one sweep.
func recordSweep(ctx context.Context, tx store.Tx, server string, s pawl.SweepStats) error {
	d := sweepDetail{Due: s.Due, GivenUp: s.GivenUp, Buried: s.Buried, Stale: s.Stale, TasksPruned: s.TasksPruned,
		KeysPruned: s.KeysPruned, Checkpoints: s.Checkpoints, Signals: s.SignalsPruned}
	if !s.NextExpiryAt.IsZero() {
		d.NextAt = s.NextExpiryAt.UnixMicro()
	}
	detail, err := json.Marshal(d)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, sweepSQL["record sweep"], server, s.ExpiredFound, s.Recovered, s.Failed, s.CheckpointsCreated, s.Errors,
		s.ScanDurationMS, string(detail), s.StartedAt.UnixMicro())
	return err
}

// foldSweeps adds up to limit rows of sweeps from before a time to row 0 and removes them,
// so that the totals stay the same.
func foldSweeps(ctx context.Context, tx store.Tx, before int64, limit int) (n int64, err error) {
	var sum, row [7]int64
	var newest, at int64
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		err := rows.Scan(&row[0], &row[1], &row[2], &row[3], &row[4], &row[5], &row[6], &at)
		for i := range sum {
			sum[i] += row[i]
		}
		n, newest = n+1, max(newest, at)
		return err
	}, sweepSQL["take old sweeps"], before, limit)
	if err != nil || n == 0 {
		return 0, err
	}
	_, err = tx.Exec(ctx, sweepSQL["fold sweeps"], sum[0], sum[1], sum[2], sum[3], sum[4], sum[5], sum[6], newest)
	return n, err
}

// Totals adds up all sweeps of all servers, including those that retention removed.
// IsRunning means that a server reported within two intervals.
func (s *Sweeper) Totals(ctx context.Context, tx store.Tx) (pawl.SweepTotals, error) {
	var t pawl.SweepTotals
	if _, err := store.Row(ctx, tx, []any{&t.TotalScans, &t.TotalRecovered, &t.TotalFailed}, sweepSQL["sweep totals"]); err != nil {
		return t, err
	}
	last, _, err := s.Passes(ctx, tx, 0, 1)
	if err != nil || len(last) == 0 {
		return t, err
	}
	now, err := tx.Now(ctx)
	t.LastScan = &last[0]
	t.IsRunning = now-last[0].StartedAt.UnixMicro() <= 2*s.Interval().Microseconds()
	return t, err
}

// Passes reads up to limit sweeps, newest first, with ids below before (0 = from the
// newest). It also returns the id of the last one read.
func (*Sweeper) Passes(ctx context.Context, tx store.Tx, before int64, limit int) ([]pawl.SweepStats, int64, error) {
	if before == 0 {
		before = 1<<63 - 1
	}
	var out []pawl.SweepStats
	var id int64
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var s pawl.SweepStats
		var server, detail string
		var at int64
		if err := rows.Scan(&id, &server, &s.ExpiredFound, &s.Recovered, &s.Failed, &s.CheckpointsCreated, &s.Errors, &s.ScanDurationMS, &detail,
			&at); err != nil {
			return err
		}
		var d sweepDetail
		if err := json.Unmarshal([]byte(detail), &d); err != nil {
			return err
		}
		s.Due, s.GivenUp, s.Buried, s.Stale = d.Due, d.GivenUp, d.Buried, d.Stale
		s.TasksPruned, s.KeysPruned, s.Checkpoints, s.SignalsPruned = d.TasksPruned, d.KeysPruned, d.Checkpoints, d.Signals
		s.StartedAt = time.UnixMicro(at).UTC()
		if d.NextAt != 0 {
			s.NextExpiryAt = time.UnixMicro(d.NextAt).UTC()
		}
		out = append(out, s)
		return nil
	}, sweepSQL["sweeps before"], before, limit)
	return out, id, err
}
