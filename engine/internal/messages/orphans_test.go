package messages_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/messages"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

type fixture struct {
	*testing.T
	*pawltest.Pawl
}

// each runs a test on every database.
func each(t *testing.T, fn func(h fixture)) {
	t.Helper()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			fn(fixture{t, pawltest.Open(t, which)})
		})
	}
}

func (h fixture) in(fn func(ctx context.Context, tx store.Tx) error) {
	h.OK(h.Engine.DB().Do(h.Context(), fn))
}

func (h fixture) exec(query string, args ...any) {
	h.in(func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
}

// failed returns leases of n items that have failed for good.
func (h fixture) failed(n int) []pawl.Lease {
	for range n {
		h.Create(pawl.NewTask{Type: "a", MaxAttempts: 1, Payload: json.RawMessage(`{}`)})
	}
	ls := h.ClaimN(n, pawl.ClaimRequest{WorkerID: "w"})
	for _, l := range ls {
		_, err := pawltest.First(h.Service.Fail(h.Context(), []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Code: "broken"}}}))
		h.OK(err)
	}
	return ls
}

// Chunks of a namespace that moves in are not looked at.
func TestChunksOfANamespaceThatMovesInStay(t *testing.T) {
	each(t, func(h fixture) {
		h.Create(pawl.NewTask{Type: "a", Reply: &pawl.Reply{}})
		l := h.ClaimN(1, pawl.ClaimRequest{WorkerID: "w"})[0]
		writer := pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
		_, err := pawltest.First(h.Service.Append(h.Context(), []pawl.AppendCall{{MessageFence: writer, Chunks: []pawl.Chunk{
			{Type: pawl.ChunkText, Text: "word"}}}}))
		h.OK(err)
		_, err = pawltest.First(h.Service.FinishMessages(h.Context(), []pawl.FinishCall{{MessageFence: writer}}))
		h.OK(err)
		undo := errors.New("undo")
		err = h.Engine.DB().Do(h.Context(), func(ctx context.Context, tx store.Tx) error {
			before, err := messages.Retired(ctx, tx)
			if err != nil {
				return err
			}
			_, err = tx.Exec(ctx, "INSERT INTO pawl.relocations (id, side, namespace, step, peer, created_at, changed_at) "+
				"VALUES ('m', 'target', 'default', 'copying', 'p', 0, 0)")
			if err != nil {
				return err
			}
			if beside, err := messages.Retired(ctx, tx); err != nil || len(before) == 0 || len(beside) > 0 {
				t.Errorf("%d messages retire, and %d beside a move: %v", len(before), len(beside), err)
			}
			return undo
		})
		if !errors.Is(err, undo) {
			t.Fatal(err)
		}
	})
}

// removingDB removes a task before each of its transactions that write.
type removingDB struct {
	store.DB
	remove func()
	n      int
}

func (r *removingDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	r.n++
	r.remove()
	return r.DB.Do(ctx, fn)
}

// A message whose task is removed between the list of messages and its end is no error.
func TestTheEndOfAMessageBesideTheRemovalOfItsTask(t *testing.T) {
	each(t, func(h fixture) {
		ctx := h.Context()
		l := h.failed(1)[0]
		h.exec("INSERT INTO pawl.messages (id, namespace, task_id, item_id, role, state, created_at) "+
			"VALUES ('msg_1', 'default', $1, $2, 'assistant', 'streaming', 5)", store.TaskID(l.TaskID), store.ItemID(l.ID))
		db := &removingDB{DB: h.Engine.DB(), remove: func() {
			_, err := h.Service.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: l.TaskID, Force: true}})
			h.OK(err)
		}}
		h.OK(messages.EndOrphans(ctx, db))
		if db.n == 0 {
			t.Error("the message was not listed")
		}
	})
}

// A message that another transaction holds, or that cannot be read, keeps no later one open.
func TestOneMessageKeepsNoOtherOpen(t *testing.T) {
	each(t, func(h fixture) {
		for i, l := range h.failed(3) {
			h.exec("INSERT INTO pawl.messages (id, namespace, task_id, item_id, role, state, created_at) "+
				"VALUES ($1, 'default', $2, $3, 'assistant', 'streaming', 5)", fmt.Sprint("msg_", i), store.TaskID(l.TaskID), store.ItemID(l.ID))
		}
		broken := errors.New("its chunks cannot be read")
		n := 0
		err := messages.EndOrphans(h.Context(), failingDB{h.Engine.DB(), func() error {
			if n++; n <= 2 {
				return []error{store.ErrLocked, broken}[n-1]
			}
			return nil
		}})
		if !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		h.in(func(ctx context.Context, tx store.Tx) error {
			open, err := store.Strings(ctx, tx, "SELECT id FROM pawl.messages WHERE state = 'streaming'")
			if len(open) != 2 {
				t.Errorf("%d open messages", len(open))
			}
			return err
		})
	})
}

// failingDB fails some transactions that write.
type failingDB struct {
	store.DB
	fails func() error
}

func (f failingDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	if err := f.fails(); err != nil {
		return err
	}
	return f.DB.Do(ctx, fn)
}
