package store

import (
	"context"
	"encoding/json"
	"time"

	"github.com/pawl-work/pawl"
)

// SweepDetail is what a row of sweeps stores besides its six numbers.
type SweepDetail struct {
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

// SweepTotals adds up all sweeps of all servers, including those that retention removed.
// IsRunning means that a server reported within two intervals.
func SweepTotals(ctx context.Context, tx Tx, interval time.Duration) (pawl.SweepTotals, error) {
	var t pawl.SweepTotals
	if _, err := Row(ctx, tx, []any{&t.TotalScans, &t.TotalRecovered, &t.TotalFailed}, sweepSQL["sweep totals"]); err != nil {
		return t, err
	}
	last, _, err := ListSweeps(ctx, tx, 0, 1)
	if err != nil || len(last) == 0 {
		return t, err
	}
	now, err := tx.Now(ctx)
	t.LastScan = &last[0]
	t.IsRunning = now-last[0].StartedAt.UnixMicro() <= 2*interval.Microseconds()
	return t, err
}

// ListSweeps reads up to limit sweeps, newest first, with ids below before (0 = from the
// newest). It also returns the id of the last one read.
func ListSweeps(ctx context.Context, tx Tx, before int64, limit int) ([]pawl.SweepStats, int64, error) {
	if before == 0 {
		before = 1<<63 - 1
	}
	var out []pawl.SweepStats
	var id int64
	err := EachRow(ctx, tx, func(rows Rows) error {
		var s pawl.SweepStats
		var server, detail string
		var at int64
		if err := rows.Scan(&id, &server, &s.ExpiredFound, &s.Recovered, &s.Failed, &s.CheckpointsCreated, &s.Errors, &s.ScanDurationMS, &detail,
			&at); err != nil {
			return err
		}
		var d SweepDetail
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
