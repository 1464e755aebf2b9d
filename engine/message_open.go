package engine

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/engine/internal/stream"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// OpenMessages opens messages that tasks have themselves; see pawl.Messenger.
func (e *Engine) OpenMessages(ctx context.Context, calls []pawl.OpenCall) ([]pawl.Result[pawl.OpenedMessage], error) {
	calls = idform.Calls(calls)
	if err := e.acts(ctx, "open"); err != nil {
		return nil, err
	}
	return each(ctx, "open", calls, func(ctx context.Context, c *pawl.OpenCall) (out pawl.OpenedMessage, err error) {
		if err := checkOpen(c); err != nil {
			return out, err
		}
		caller := pawl.CallerOf(ctx)
		m := newMessage{ID: e.k.IDs.Next("msg"), Namespace: caller.Namespace, TaskID: c.TaskID, Role: c.Role, Thread: store.Text(c.Thread),
			Model: store.Text(c.Model), MaxSteps: pawl.DefaultMaxSteps, Metadata: store.Text(c.Metadata), Actor: actor(caller, pawl.ActorUser, "")}
		writer := 0
		err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			row, n, err := openOwn(ctx, tx, m, c.OnConflict == pawl.OnConflictReturn)
			if err == nil {
				writer = n
				out.Message, err = stream.InFull(ctx, tx, row)
			}
			return err
		})
		if err == nil && writer > 0 {
			out.Writer = e.tokens.writer(caller.Namespace, out.ID, writer)
		}
		return out, err
	})
}

// appendToOwn adds chunks to a message that a task has itself. A writer counts as an attempt.
func (e *Engine) appendToOwn(ctx context.Context, c *pawl.AppendCall, body string) (out pawl.Appended, err error) {
	by := *c
	if by.Attempt, err = e.writerOf(ctx, c.MessageFence); err != nil {
		return out, err
	}
	a := store.Append{Fence: store.Fence{Namespace: pawl.CallerOf(ctx).Namespace}, MessageID: c.MessageID, Offset: c.Offset,
		Count: len(c.Chunks), Body: body}
	var done store.Appended
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		done, err = store.AppendOwn(ctx, tx, &a, by.Attempt, pawl.MaxMessageBytes)
		return err
	})
	if err != nil {
		return out, err
	}
	return e.appended(ctx, &by, body, done)
}

// finishOwn completes a message that a task has itself.
func (e *Engine) finishOwn(ctx context.Context, c *pawl.FinishCall) (out pawl.Message, err error) {
	if _, err := e.writerOf(ctx, c.MessageFence); err != nil {
		return out, err
	}
	caller := pawl.CallerOf(ctx)
	err = e.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		row, err := store.LockOwn(ctx, tx, caller.Namespace, c.MessageID)
		if err != nil {
			return err
		}
		if row.Status != pawl.MessageStreaming {
			return rules.Conflict("finish", string(row.Status), row.Status.Allowed())
		}
		now, err := tx.Now(ctx)
		if err != nil {
			return err
		}
		row.Usage = c.Usage
		err = endMessage(ctx, tx, now, &row, pawl.MessageComplete, actor(caller, pawl.ActorUser, ""), "")
		out = row.Message
		return err
	})
	if err == nil {
		e.after(func() { e.watcher.Changed(c.MessageID) })
	}
	return out, err
}

const writerPrefix = "writer_"

// writer returns the token of a writer of a message that a task has itself: its number in clear
// text, and a MAC of it, the message and the namespace.
func (t *tokens) writer(namespace, message string, n int) string {
	macs := t.macs.Load()
	mac := macs.Get().(*tokenMAC)
	defer macs.Put(mac)
	text := writerPrefix + strconv.Itoa(n)
	mac.Reset()
	mac.Write([]byte(text + "\x00" + message + "\x00" + namespace))
	return text + "_" + hex.EncodeToString(mac.Sum(nil)[:macBytes])
}

// writerOf returns the number of the writer that a token proves.
func (e *Engine) writerOf(ctx context.Context, m pawl.MessageFence) (int, error) {
	text, _, _ := strings.Cut(strings.TrimPrefix(m.Writer, writerPrefix), "_")
	n, err := strconv.Atoi(text)
	if err != nil || !hmac.Equal([]byte(m.Writer), []byte(e.tokens.writer(pawl.CallerOf(ctx).Namespace, m.MessageID, n))) {
		return 0, pawl.Invalid("/writer", "is no token of a writer of this message")
	}
	return n, nil
}
