package messages

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/internal/idform"
	"github.com/pawl-work/pawl/store"
)

// GetMessage reads a message with all its content so far; see pawl.MessageReader.
func (ms *Messages) GetMessage(ctx context.Context, id string) (pawl.Message, error) {
	return kernel.Read(ctx, ms.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.Message, error) {
		row, err := store.GetMessage(ctx, tx, ns, id)
		if err == nil {
			row.Epoch, err = store.FeedEpoch(ctx, tx)
		}
		if err != nil {
			return pawl.Message{}, err
		}
		return inFull(ctx, tx, row)
	})
}

// ListMessages lists messages; see pawl.MessageReader.
func (ms *Messages) ListMessages(ctx context.Context, q pawl.MessageFilter) (pawl.List[pawl.Message], error) {
	q = idform.Call(q)
	out := pawl.List[pawl.Message]{Items: []pawl.Message{}}
	if err := checkMessageFilter(&q); err != nil {
		return out, err
	}
	return kernel.Read(ctx, ms.k, func(ctx context.Context, tx store.Tx, ns string) (pawl.List[pawl.Message], error) {
		out := pawl.List[pawl.Message]{Items: []pawl.Message{}}
		if err := store.Known(ctx, tx, ns, q.TaskID, q.ItemID); err != nil {
			return out, err
		}
		return store.Pages(q.Page, func(m *pawl.Message) int { return len(m.Content) + len(m.Metadata) },
			func(m pawl.Message) string { return m.ID }, func(p pawl.Page) (pawl.List[pawl.Message], error) {
				q.Page = p
				return ms.messagesOf(ctx, tx, ns, q)
			})
	})
}

// FollowMessage follows a message; see pawl.MessageReader. The frames are shared with
// other followers: do not change what they point to.
func (ms *Messages) FollowMessage(ctx context.Context, id string, after int64, fn func(pawl.MessageFrame) error) error {
	if err := ms.k.NotInTx("follow"); err != nil {
		return err
	}
	return ms.s.watcher.follow(ctx, pawl.CallerOf(ctx).Namespace, id, after+1, fn)
}

// messagesOf reads a page of messages in full. The page ends after the message that makes
// it larger than pawl.MaxPageBytes.
func (ms *Messages) messagesOf(ctx context.Context, tx store.Tx, ns string, q pawl.MessageFilter) (out pawl.List[pawl.Message], err error) {
	rows, err := store.ListMessages(ctx, tx, ns, q)
	if err != nil {
		return out, err
	}
	var epoch int64
	if len(rows) > 0 {
		if epoch, err = store.FeedEpoch(ctx, tx); err != nil {
			return out, err
		}
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		out.Next = rows[q.Limit-1].ID
	}
	bytes := 0
	for _, row := range rows {
		row.Epoch = epoch
		m, err := inFull(ctx, tx, row)
		if err != nil {
			return out, err
		}
		out.Items = append(out.Items, m)
		if bytes += len(m.Content); bytes > pawl.MaxPageBytes {
			out.Next = m.ID
			break
		}
	}
	return out, nil
}

// Open implements kernel.Messages.
func (forWork) Open(ctx context.Context, tx store.Tx, ns, itemID string, said pawl.List[pawl.MessageRef]) (*pawl.OpenMessage, error) {
	open := pawl.OpenMessage{}
	if at := slices.IndexFunc(said.Items, func(m pawl.MessageRef) bool { return m.Status == pawl.MessageStreaming }); at >= 0 {
		m := said.Items[at]
		open = pawl.OpenMessage{ID: m.ID, Offset: m.Offset, StepNumber: m.StepNumber}
	} else if said.Next != "" {
		id, err := openMessageOf(ctx, tx, itemID)
		if err != nil || id == "" {
			return nil, err
		}
		m, err := store.GetMessage(ctx, tx, ns, id)
		if err != nil {
			return nil, err
		}
		open = pawl.OpenMessage{ID: id, Offset: m.Offset, StepNumber: m.StepNumber}
	}
	if open.ID == "" {
		return nil, nil
	}
	calls, err := store.ToolCalls(ctx, tx, open.ID)
	open.ToolCalls = calls
	return &open, err
}

// openMessageOf returns the id of an item's open message, or "" when there is none.
func openMessageOf(ctx context.Context, tx store.Tx, itemID string) (string, error) {
	var id string
	_, err := store.Row(ctx, tx, []any{&id}, texts["open message"], store.ItemID(itemID))
	return id, err
}

// OfItem implements kernel.Messages.
func (forWork) OfItem(ctx context.Context, tx store.Tx, taskID, itemID string, rework int, p pawl.Page) (
	pawl.List[pawl.MessageRef], error,
) {
	rows, err := tx.Query(ctx, texts["said by item"], store.TaskID(taskID), store.ItemID(itemID), p.Cursor, p.Limit+1, rework)
	if err != nil {
		return pawl.List[pawl.MessageRef]{}, err
	}
	defer rows.Close()
	var out []pawl.MessageRef
	for rows.Next() {
		var m pawl.MessageRef
		if err := rows.Scan(&m.ID, &m.Status, &m.Offset, &m.StepNumber, &m.Model, &m.MaxSteps); err != nil {
			return pawl.List[pawl.MessageRef]{}, err
		}
		out = append(out, m)
	}
	return store.Paged(out, p.Limit, func(m pawl.MessageRef) string { return m.ID }), rows.Err()
}
