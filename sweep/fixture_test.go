package sweep_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/engine/archivetest"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/sweep"
)

// fixture is a Pawl with a sweeper of its own.
type fixture struct {
	*testing.T
	*pawltest.Pawl
	*archivetest.Sweeper
}

// each runs a test on every database. Only the test runs sweeps.
func each(t *testing.T, fn func(h *fixture)) {
	t.Helper()
	eachOf(t, pawltest.OpenWith, fn)
}

// eachNew is each for tests of many rows.
func eachNew(t *testing.T, fn func(h *fixture)) {
	t.Helper()
	eachOf(t, pawltest.OpenNew, fn)
}

func eachOf(t *testing.T, open func(testing.TB, pawltest.Database, engine.Options) *pawltest.Pawl, fn func(h *fixture)) {
	t.Helper()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
			p := open(t, which, engine.Options{Log: quiet})
			fn(&fixture{t, p, archivetest.New(&sweep.Sweeper{
				DB: p.Engine.DB(), Options: pawl.DefaultSweepOptions(), Server: "test", Log: quiet,
				NewID: func(prefix string) string { return prefix + "_" + ulid.Make().String() },
			})})
		})
	}
}

func (h *fixture) same(got, want any, what string) {
	h.Helper()
	if g, w := text(got), text(want); g != w {
		h.Errorf("%s: %s, want %s", what, g, w)
	}
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

func (h *fixture) pass() pawl.SweepStats {
	h.Helper()
	s, err := h.Pass(h.Context())
	h.OK(err)
	return s
}

// pruning returns the passes of an engine that prunes checkpoints, which is a step of a room.
func (h *fixture) pruning(keep int, on bool) func() pawl.SweepStats {
	o := pawl.DefaultSweepOptions()
	o.CheckpointRetentionLimit, o.CleanupOldCheckpoints = keep, on
	e := h.Another(engine.Options{Sweep: &o, Log: slog.New(slog.DiscardHandler)})
	return func() pawl.SweepStats {
		h.Helper()
		s, err := e.Sweep(h.Context())
		h.OK(err)
		return s
	}
}

// solos creates n tasks of one item.
func (h *fixture) solos(n, maxAttempts int) (ids []string) {
	h.Helper()
	calls := make([]pawl.NewTask, n)
	for i := range calls {
		calls[i] = pawl.NewTask{Type: "a", MaxAttempts: maxAttempts, Payload: json.RawMessage(`{"i":1}`)}
	}
	rs, err := h.Service.CreateTasks(h.Context(), calls)
	h.OK(err)
	for _, r := range rs {
		h.OK(r.Err)
		ids = append(ids, r.Value.ID)
	}
	return ids
}

// many creates a task of n items.
func (h *fixture) many(n, maxAttempts int) pawl.Task {
	h.Helper()
	return h.Create(pawl.NewTask{Type: "a", Payload: json.RawMessage(`{}`), MaxAttempts: maxAttempts,
		Items: slices.Repeat([]pawl.NewItem{{Input: json.RawMessage(`1`)}}, n)})
}

func (h *fixture) claim(n int) []pawl.Lease {
	h.Helper()
	return h.ClaimN(n, pawl.ClaimRequest{WorkerID: "w"})
}

func (h *fixture) complete(ls ...pawl.Lease) {
	h.Helper()
	calls := make([]pawl.CompleteCall, len(ls))
	for i, l := range ls {
		calls[i] = pawl.CompleteCall{Fence: l.Fence(), Result: json.RawMessage(`"done <&> \u2028"`)}
	}
	rs, err := h.Service.Complete(h.Context(), calls)
	h.OK(err)
	for _, r := range rs {
		h.OK(r.Err)
	}
}

func (h *fixture) fail(ls ...pawl.Lease) {
	h.Helper()
	for _, l := range ls {
		_, err := pawl.Fail(h.Context(), h.Service, l.Fence(), pawl.Permanent(errors.New("no")))
		h.OK(err)
	}
}

func (h *fixture) save(l pawl.Lease, typ, name string) {
	h.Helper()
	_, err := pawl.SaveCheckpoint(h.Context(), h.Service, l.Fence(),
		pawl.NewCheckpoint{Type: typ, Name: name, Snapshot: json.RawMessage(`{"a":[1,2.50,"é"]}`)})
	h.OK(err)
}

func (h *fixture) state(taskID string) pawl.TaskState {
	h.Helper()
	t, err := h.Service.GetTask(h.Context(), taskID)
	h.OK(err)
	return t.State
}

func (h *fixture) events(f pawl.EventFilter) []pawl.Event {
	h.Helper()
	f.Limit = pawl.MaxPage
	l, err := h.Service.ListEvents(h.Context(), f)
	h.OK(err)
	return l.Items
}

// exec runs a statement on the tables directly.
func (h *fixture) exec(query string, args ...any) (n int64) {
	h.Helper()
	query, args = pawltest.SQL(query, args...)
	h.OK(h.DB.Do(h.Context(), func(ctx context.Context, tx store.Tx) (err error) {
		n, err = tx.Exec(ctx, query, args...)
		return err
	}))
	return n
}

func (h *fixture) count(query string, args ...any) (n int64) {
	h.Helper()
	query, args = pawltest.SQL(query, args...)
	h.OK(h.DB.View(h.Context(), func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&n}, query, args...)
		return err
	}))
	return n
}

const day = 24 * time.Hour
