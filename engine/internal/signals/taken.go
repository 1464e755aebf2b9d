package signals

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// taken is a signal that an item took: it ended a wait of the item, or a finished wait has it.
type taken struct {
	pawl.Awaited
	attempt  int   // that the wait ended; 0 = unknown
	sequence int64 // of the checkpoint of the finished wait; 0 = none
}

// read reads a signal. It returns false when the signal has not been sent.
func (s signal) read(ctx context.Context, tx store.Tx) (pawl.SentSignal, bool, error) {
	var payload store.Text
	var at int64
	found, err := store.Row(ctx, tx, []any{&payload, &at}, texts["read signal"], s.namespace, s.name, s.key)
	return pawl.SentSignal{Name: s.name, Key: s.key, Payload: store.Raw(payload), SentAt: store.Stamp(at)}, found, err
}

// taking returns the data of the event with which an item takes the signal that is stored now.
func (s signal) taking(ctx context.Context, tx store.Tx) (store.Text, error) {
	sent, _, err := s.read(ctx, tx)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(pawl.Awaited{Signal: s.name, Key: s.key, SentAt: &sent.SentAt})
	return store.Text(data), err
}

// takenBy returns the signals that an item took.
func takenBy(ctx context.Context, tx store.Tx, taskID, itemID string) (out []taken, err error) {
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		var t taken
		var data store.Text
		if err := rows.Scan(&t.attempt, &t.sequence, &data); err != nil {
			return err
		}
		if json.Unmarshal([]byte(data), &t.Awaited) == nil && t.Signal != "" && t.SentAt != nil { // others hold other data
			out = append(out, t)
		}
		return nil
	}, texts["taken signals"], store.TaskID(taskID), store.ItemID(itemID))
	return out, err
}

// news reports whether a signal was sent after those of its name and key that were taken before
// the wait of a checkpoint, or with c = nil, before now.
func news(all []taken, s *pawl.SentSignal, c *pawl.Checkpoint) bool {
	for _, t := range all {
		before := c == nil || t.attempt > 0 && t.attempt < c.Attempt || t.sequence > 0 && t.sequence < c.Sequence
		if before && t.Signal == s.Name && t.Key == s.Key && !s.SentAt.After(*t.SentAt) {
			return false
		}
	}
	return true
}

// notTaken returns those of the suspended items whose stored signal is news to them.
func notTaken(ctx context.Context, tx store.Tx, calls []store.Leave, moved map[string]*store.Moved, ids []string) ([]string, error) {
	waits := map[string]*store.Leave{}
	for i := range calls {
		waits[calls[i].ItemID] = &calls[i]
	}
	var out []string
	for _, id := range ids {
		if c := waits[id]; !c.Ever {
			sent, _, err := awaited(c).read(ctx, tx)
			if err != nil {
				return nil, err
			}
			all, err := takenBy(ctx, tx, moved[id].TaskID, id)
			if err != nil {
				return nil, err
			}
			if !news(all, &sent, nil) {
				continue
			}
		}
		out = append(out, id)
	}
	return out, nil
}

// Answers implements kernel.Signals. It reads what the item took once.
func (asked) Answers(namespace, taskID, itemID string) func(ctx context.Context, tx store.Tx, a pawl.Awaited,
	c *pawl.Checkpoint) (pawl.SentSignal, bool, error) {
	var all []taken
	read := false
	return func(ctx context.Context, tx store.Tx, a pawl.Awaited, c *pawl.Checkpoint) (pawl.SentSignal, bool, error) {
		s, there, err := signal{namespace, a.Signal, a.Key}.read(ctx, tx)
		if err == nil && there && !read {
			all, err = takenBy(ctx, tx, taskID, itemID)
			read = true
		}
		return s, there && news(all, &s, c), err
	}
}
