package store

import (
	"context"
	"encoding/json"
	"slices"
)

// round says how often an item was sent back for rework, and the reasons of the last time.
type round struct {
	itemID  string
	rework  int
	reasons Text // as a list
}

// ReadRounds reads in which rounds the items of a task were: each one when it saved its next checkpoint after
// that of the fork, or now if it has saved none. A fork from checkpoint 0 begins anew.
func (f *Fork) ReadRounds(ctx context.Context, tx Tx, taskID string) error {
	if f.At == 0 {
		return nil
	}
	var out []round
	err := EachRow(ctx, tx, func(rows Rows) error {
		var r round
		var later int
		var data Text
		if err := rows.Scan((*ItemID)(&r.itemID), &r.rework, &r.reasons, &data, &later); err != nil {
			return err
		}
		last := len(out) - 1
		if last < 0 || out[last].itemID != r.itemID {
			if data != "" {
				r.reasons = "[]"
			}
			out, last = append(out, r), last+1
		}
		if later == 1 {
			out[last].rework--
		} else if data != "" {
			var rejection struct{ Errors json.RawMessage }
			if err := json.Unmarshal([]byte(data), &rejection); err != nil {
				return err
			}
			out[last].reasons = Text(rejection.Errors)
		}
		return nil
	}, forkSQL["rounds"], TaskID(taskID), f.At)
	f.rounds = out
	return err
}

// CopyRounds gives the rounds to the copies of the items.
func (f *Fork) CopyRounds(copyOf map[string]string) {
	for i := range f.rounds {
		f.rounds[i].itemID = copyOf[f.rounds[i].itemID]
	}
	f.rounds = slices.DeleteFunc(f.rounds, func(r round) bool { return r.itemID == "" || r.rework <= 0 })
}

// beginRounds sets the rounds of items that were inserted in this transaction.
func beginRounds(ctx context.Context, tx Tx, rounds []round) error {
	for part := range slices.Chunk(rounds, CopyStep) {
		of, alike := make(map[string]int, len(part)), map[Text][]string{}
		ids := make([]string, len(part))
		for i, r := range part {
			ids[i], of[r.itemID] = r.itemID, r.rework
			alike[r.reasons] = append(alike[r.reasons], r.itemID)
		}
		rows, err := Take(ctx, tx, ids, []string{"queued", "scheduled", "waiting"})
		if err != nil {
			return err
		}
		for i := range rows {
			rows[i].Rework = of[rows[i].ItemID]
		}
		if err := Put(ctx, tx, rows); err != nil {
			return err
		}
		for reasons, ids := range alike {
			if err := setOfItems(ctx, tx, decideSQL, "give reasons", ids, reasons); err != nil {
				return err
			}
		}
	}
	return nil
}
