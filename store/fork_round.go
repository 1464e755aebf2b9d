package store

import (
	"context"
	"encoding/json"
	"slices"
)

// Round says how often an item was sent back for rework, and the reasons of the last time.
type Round struct {
	ItemID  string
	Rework  int
	Reasons Text // as a list
}

// RoundsOf returns the rounds of the items of a task that a fork from a checkpoint begins with: each item
// is where it was when it saved its next checkpoint after that one, or where it is now if it has saved none.
// Items that were not sent back by then are left out. A fork from checkpoint 0 begins anew.
func RoundsOf(ctx context.Context, tx Tx, taskID string, at int64) (out []Round, err error) {
	if at == 0 {
		return nil, nil
	}
	err = EachRow(ctx, tx, func(rows Rows) error {
		var r Round
		var later int
		var data Text
		if err := rows.Scan((*ItemID)(&r.ItemID), &r.Rework, &r.Reasons, &data, &later); err != nil {
			return err
		}
		var rejection struct{ Errors json.RawMessage }
		if data != "" {
			if err := json.Unmarshal([]byte(data), &rejection); err != nil {
				return err
			}
			r.Reasons = Text(rejection.Errors)
		}
		last := len(out) - 1
		if last < 0 || out[last].ItemID != r.ItemID {
			out, last = append(out, r), last+1
		}
		if later == 1 {
			out[last].Rework--
		} else {
			out[last].Reasons = r.Reasons
		}
		return nil
	}, forkSQL["rounds"], TaskID(taskID), at)
	return slices.DeleteFunc(out, func(r Round) bool { return r.Rework <= 0 }), err
}

// beginRounds sets the rounds of items that were inserted in this transaction.
func beginRounds(ctx context.Context, tx Tx, rounds []Round) error {
	for part := range slices.Chunk(rounds, CopyStep) {
		of, alike := make(map[string]int, len(part)), map[Text][]string{}
		ids := make([]string, len(part))
		for i, r := range part {
			ids[i], of[r.ItemID] = r.ItemID, r.Rework
			alike[r.Reasons] = append(alike[r.Reasons], r.ItemID)
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
