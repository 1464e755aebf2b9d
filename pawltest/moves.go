package pawltest

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store"
)

// move is one change of state in the events of a test's database. Event is "" for a change of
// a task that its only item caused: the event then has the name of the item's change.
type move struct{ noun, event, from, to string }

// moves are the moves that the tests of this process made, by database.
var moves = struct {
	mu   sync.Mutex
	made map[Database]map[move]bool
}{made: map[Database]map[move]bool{}}

// listed are the tables of moves, by noun.
var listed = map[string][]pawl.Move{"item": pawl.ItemMoves, "task": pawl.TaskMoves, "message": pawl.MessageMoves}

// leaves reports whether a move of the tables leaves such a change in the events.
func leaves(m pawl.Move, made move) bool {
	event := made.event == "" || made.event == m.Event || m.Event == "" && made.event == made.to ||
		m.Verb == "create" && made.event == "planned" // one for each item of a task with many
	return event && slices.Contains(m.From, made.from) && slices.Contains(m.To, made.to)
}

// noteMoves adds the moves of the test's database. A move that is not in the tables fails the
// test.
func (p *Pawl) noteMoves(e *engine.Engine) {
	found, err := recordedMoves(store.For(context.Background(), store.Background), e) // of all namespaces, also of one that has left
	if err != nil {
		p.t.Errorf("pawltest: the moves cannot be read: %v", err)
	}
	for _, made := range found {
		if !slices.ContainsFunc(listed[made.noun], func(m pawl.Move) bool { return leaves(m, made) }) {
			p.t.Errorf("pawltest: %+v is made and not listed in lifecycle.go", made)
		}
	}
	moves.mu.Lock()
	defer moves.mu.Unlock()
	if moves.made[p.Database] == nil {
		moves.made[p.Database] = map[move]bool{}
	}
	for _, m := range found {
		moves.made[p.Database][m] = true
	}
}

func recordedMoves(ctx context.Context, e *engine.Engine) (out []move, err error) {
	err = e.DB().View(ctx, func(ctx context.Context, tx store.Tx) error {
		out = nil
		rows, err := tx.Query(ctx, `SELECT CASE WHEN class = 'task' THEN 'task' ELSE 'item' END, event, COALESCE(from_state, ''), to_state
			FROM pawl.event_rows WHERE to_state IS NOT NULL
			UNION SELECT 'task', '', COALESCE(task_from, ''), task_to FROM pawl.event_rows WHERE task_to IS NOT NULL`)
		if err != nil {
			return err
		}
		for rows.Next() {
			var m move
			if err := rows.Scan(&m.noun, &m.event, &m.from, &m.to); err != nil {
				rows.Close()
				return err
			}
			out = append(out, m)
		}
		rows.Close()
		ended, err := messageMoves(ctx, tx)
		out = append(out, ended...)
		return err
	})
	return out, err
}

// messageMoves reads the moves of messages from the data of the events: the event of a new
// message has its role, and that of a continued one has none.
func messageMoves(ctx context.Context, tx store.Tx) ([]move, error) {
	rows, err := tx.Query(ctx, `SELECT event, data FROM pawl.event_rows WHERE event IN ('message_started', 'message_ended')`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []move
	for rows.Next() {
		m := move{noun: "message", from: "streaming"}
		var text string
		if err := rows.Scan(&m.event, &text); err != nil {
			return nil, err
		}
		var data struct{ Role, Status string }
		if err := json.Unmarshal([]byte(text), &data); err != nil {
			return nil, err
		}
		if m.to = data.Status; m.event == "message_started" {
			if m.from = "error"; data.Role != "" {
				m.from = ""
			}
		}
		out = append(out, m)
	}
	return out, rows.Err()
}
