package sweep_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/sweep"
)

// besideDB runs something else before the first write of its first transaction.
type besideDB struct {
	store.DB
	before func()
}

func (b *besideDB) Do(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	return b.DB.Do(ctx, func(ctx context.Context, tx store.Tx) error { return fn(ctx, &besideTx{tx, b}) })
}

func (b *besideDB) once() {
	if before := b.before; before != nil {
		b.before = nil
		before()
	}
}

type besideTx struct {
	store.Tx
	db *besideDB
}

func (t *besideTx) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	t.db.once()
	return t.Tx.Exec(ctx, query, args...)
}

func (t *besideTx) ExecEach(ctx context.Context, query string, rows [][]any) error {
	t.db.once()
	return t.Tx.ExecEach(ctx, query, rows)
}

// A fork of an archived task reads the task's own rows if it is restored meanwhile.
func TestAnArchiveIsReadBesideItsRestore(t *testing.T) {
	each(t, func(h *fixture) {
		if h.Database == pawltest.SQLite {
			return // transactions that write follow each other
		}
		task := createFullTask(h)
		h.OK(h.Retire(h.Context(), task.ID))
		db := &besideDB{DB: h.DB, before: func() { h.OK(h.Restore(h.Context(), "default", task.ID)) }}
		read := 0
		h.OK(h.Peek(h.Context(), db, "default", task.ID, func(ctx context.Context, tx store.Tx, archived bool) error {
			read++
			_, err := store.GetTask(ctx, tx, "default", task.ID)
			if err == nil && archived {
				t.Error("the rows of the archive were read")
			}
			return err
		}))
		h.same(read, 1, "reads")
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
	each(t, func(h *fixture) {
		ctx := h.Context()
		task := h.solos(1, 1)[0]
		l := h.claim(1)[0]
		h.fail(l)
		h.exec("INSERT INTO pawl.messages (id, namespace, task_id, item_id, role, state, created_at) "+
			"VALUES ('msg_1', 'default', $1, $2, 'assistant', 'streaming', 5)", store.TaskID(task), store.ItemID(l.ID))
		db := &removingDB{DB: h.DB, remove: func() {
			_, err := h.Service.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: task, Force: true}})
			h.OK(err)
		}}
		h.OK(sweep.EndOrphanedMessages(ctx, db, nil, ""))
		if db.n == 0 {
			t.Error("the message was not listed")
		}
	})
}

// A message that another transaction holds, or that cannot be read, keeps no later one open.
func TestOneMessageKeepsNoOtherOpen(t *testing.T) {
	each(t, func(h *fixture) {
		h.solos(3, 1)
		ls := h.claim(3)
		h.fail(ls...)
		for i, l := range ls {
			h.exec("INSERT INTO pawl.messages (id, namespace, task_id, item_id, role, state, created_at) "+
				"VALUES ($1, 'default', $2, $3, 'assistant', 'streaming', 5)", fmt.Sprint("msg_", i), store.TaskID(l.TaskID), store.ItemID(l.ID))
		}
		broken := errors.New("its chunks cannot be read")
		n := 0
		err := sweep.EndOrphanedMessages(h.Context(), failingDB{h.DB, func() error {
			if n++; n <= 2 {
				return []error{store.ErrLocked, broken}[n-1]
			}
			return nil
		}}, nil, "")
		if !errors.Is(err, broken) {
			t.Errorf("%v", err)
		}
		h.same(h.count("SELECT COUNT(*) FROM pawl.messages WHERE state = 'streaming'"), 2, "open messages")
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
