package store

import (
	"context"
	"encoding/json"

	"github.com/pawl-work/pawl"
)

// Asked is what the items that ask by a task need.
type Asked struct {
	Waiting int   `json:"waiting"`         // items
	Needed  int64 `json:"needed"`          // the sum of their amounts
	Limit   int64 `json:"limit,omitempty"` // that an approval set

	Least    int64 // of their amounts
	Metadata Text  `json:"-"` // of the task
}

// million is what amounts are divided by, so that their sum does not overflow.
const million = 1_000_000

// decided reports whether a question has an answer: its metadata then has what was asked.
func decided(state Text) bool {
	return state != "" && state != Text(pawl.TaskSubmitted) && state != Text(pawl.TaskCancelled)
}

// AskedOf returns what is asked by tasks. Once one is decided, its metadata has what counted then.
func AskedOf(ctx context.Context, tx Tx, taskIDs []string) (map[string]Asked, error) {
	out := map[string]Asked{}
	err := EachRow(ctx, tx, func(rows Rows) error {
		var id string
		var state Text
		var quotient, rest int64
		var a Asked
		if err := rows.Scan((*TaskID)(&id), &state, &a.Metadata, &a.Waiting, &quotient, &rest, &a.Least); err != nil {
			return err
		}
		a.Needed = min(quotient, 1<<40)*million + rest
		if kept := (Asked{}); decided(state) && json.Unmarshal([]byte(a.Metadata), &kept) == nil && kept.Waiting > 0 {
			a = kept
		}
		out[id] = a
		return nil
	}, readSQL["asked"], TaskList(taskIDs), List(OpenStates), million)
	return out, err
}

// withAsked sets what is asked by tasks in the questions, which are values of these tasks. What is
// stored has what was asked first.
func withAsked(ctx context.Context, tx Tx, questions map[string][]*json.RawMessage) error {
	if len(questions) == 0 {
		return nil
	}
	ids := make([]string, 0, len(questions))
	for id := range questions {
		ids = append(ids, id)
	}
	asked, err := AskedOf(ctx, tx, ids)
	if err != nil {
		return err
	}
	for id, values := range questions {
		a, found := asked[id]
		for _, v := range values {
			var q pawl.BudgetQuestion
			if !found || len(*v) == 0 || json.Unmarshal(*v, &q) != nil || q.Budget == "" {
				continue
			}
			q.Waiting, q.Needed = a.Waiting, a.Needed
			if *v, err = json.Marshal(q); err != nil {
				return err
			}
		}
	}
	return nil
}
