package store

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// Taken is a signal that an item took: it ended a wait of the item, or a finished wait has it.
type Taken struct {
	pawl.Awaited
	attempt  int   // that the wait ended; 0 = unknown
	sequence int64 // of the checkpoint of the finished wait; 0 = none
}

// taking returns the data of the event with which an item takes the signal that is stored now.
func (s Signal) taking(ctx context.Context, tx Tx) (Text, error) {
	sent, _, err := ReadSignal(ctx, tx, s)
	if err != nil {
		return "", err
	}
	data, err := json.Marshal(pawl.Awaited{Signal: s.Name, Key: s.Key, SentAt: &sent.SentAt})
	return Text(data), err
}

// TakenSignals returns the signals that an item took.
func TakenSignals(ctx context.Context, tx Tx, taskID, itemID string) (out []Taken, err error) {
	err = EachRow(ctx, tx, func(rows Rows) error {
		var t Taken
		var data Text
		if err := rows.Scan(&t.attempt, &t.sequence, &data); err != nil {
			return err
		}
		if json.Unmarshal([]byte(data), &t.Awaited) == nil && t.Signal != "" && t.SentAt != nil { // others hold other data
			out = append(out, t)
		}
		return nil
	}, signalSQL["taken signals"], TaskID(taskID), ItemID(itemID))
	return out, err
}

// News reports whether a signal was sent after those of its name and key that were taken before
// the wait of a checkpoint, or with c = nil, before now.
func News(taken []Taken, s *pawl.SentSignal, c *pawl.Checkpoint) bool {
	for _, t := range taken {
		before := c == nil || t.attempt > 0 && t.attempt < c.Attempt || t.sequence > 0 && t.sequence < c.Sequence
		if before && t.Signal == s.Name && t.Key == s.Key && !s.SentAt.After(*t.SentAt) {
			return false
		}
	}
	return true
}

// notTaken returns those of the suspended items whose stored signal is news to them.
func notTaken(ctx context.Context, tx Tx, calls []Leave, moved map[string]*Moved, ids []string) ([]string, error) {
	waits := map[string]*Leave{}
	for i := range calls {
		waits[calls[i].ItemID] = &calls[i]
	}
	var out []string
	for _, id := range ids {
		if c := waits[id]; !c.Ever {
			sent, _, err := ReadSignal(ctx, tx, c.awaited())
			if err != nil {
				return nil, err
			}
			taken, err := TakenSignals(ctx, tx, moved[id].TaskID, id)
			if err != nil {
				return nil, err
			}
			if !News(taken, &sent, nil) {
				continue
			}
		}
		out = append(out, id)
	}
	return out, nil
}
