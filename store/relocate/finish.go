package relocate

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl/store"
)

const (
	// learnTime is how long servers of the source may need to learn of the move.
	learnTime = 2 * time.Second
	// clearedAtOnce is how many rows of the source one transaction removes, and of those that rest the target receives.
	clearedAtOnce = 1000
)

// finish lets the target act, and ends what the move has needed.
func (m *mover) finish(ctx context.Context) error {
	if m.target.Step != done {
		if err := m.receive(ctx); err != nil {
			return err
		}
	}
	if err := m.unwatchAll(ctx, m.to); err != nil {
		return err
	}
	m.Step("received")
	if m.Namespace != "" {
		if err := m.leave(ctx); err != nil {
			return err
		}
	}
	err := m.from.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := setStep(ctx, tx, &m.source, done, "", 0); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "DELETE FROM pawl.relocation_changes")
		return err
	})
	if err == nil && m.Namespace != "" {
		err = m.Check(ctx)
	}
	return err
}

// receiveRest makes rows that wait, and that nothing acts on, the target's own, some at a time: the rest, in one transaction,
// grows with what is still to be done alone.
func (m *mover) receiveRest(ctx context.Context) error {
	for _, t := range moved(m.Namespace) {
		for more := t.rests && m.Namespace != ""; more; {
			err := m.within(ctx, func(ctx context.Context, tx store.Tx) error {
				columns, keys := m.to.columns[t.name], store.KeyColumns(m.to.columns[t.name])
				all, key := list("", store.ColumnNames(columns)), list("", store.ColumnNames(keys))
				first := fmt.Sprintf("FROM pawl.%s\nORDER BY %s\nLIMIT %d", t.stage(m.Namespace), key, clearedAtOnce)
				n, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO pawl.%s (%s)\nSELECT %s\n%s", t.name, all, all, first))
				if more = n == clearedAtOnce; err == nil {
					_, err = tx.Exec(ctx, fmt.Sprintf("DELETE FROM pawl.%s\nWHERE (%s) IN (SELECT %s\n%s)", t.stage(m.Namespace), key, key, first))
				}
				return err
			})
			if err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
			m.Step("received some")
		}
	}
	return nil
}

// receive makes the rows that wait the target's own.
func (m *mover) receive(ctx context.Context) error {
	if err := m.receiveRest(ctx); err != nil {
		return err
	}
	hooks, err := m.hooks(ctx)
	if err != nil {
		return err
	}
	return m.to.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := setStep(ctx, tx, &m.target, done, "", 0); err != nil {
			return err
		}
		if m.Namespace == "" {
			return nil
		}
		for _, t := range moved(m.Namespace) {
			as := t.stage(m.Namespace)
			if as == t.name {
				continue
			}
			columns := strings.Join(store.ColumnNames(m.to.columns[t.name]), ", ")
			if _, err := tx.Exec(ctx, fmt.Sprintf("INSERT INTO pawl.%s (%s)\nSELECT %s\nFROM pawl.%s", t.name, columns, columns, as)); err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
			if _, err := tx.Exec(ctx, "DROP TABLE pawl."+as); err != nil {
				return err
			}
		}
		if _, err := tx.Exec(ctx, "DELETE FROM pawl.relocation_numbers"); err != nil {
			return err
		}
		return tx.ExecEach(ctx, "INSERT INTO pawl.type_hooks (type, hook)\nVALUES ($1, $2)\nON CONFLICT (type, hook) DO NOTHING", hooks)
	})
}

// hooks reads which hooks processes of the source have of the types of a namespace. Processes of the target must not pass
// over them from the moment when they have its tasks.
func (m *mover) hooks(ctx context.Context) (out [][]any, err error) {
	if m.Namespace == "" {
		return nil, nil
	}
	err = m.from.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		out = nil
		return store.EachRow(ctx, tx, func(rows store.Rows) error {
			var name, hook string
			err := rows.Scan(&name, &hook)
			out = append(out, []any{name, hook})
			return err
		}, `SELECT h.type, h.hook
FROM pawl.type_hooks h
WHERE EXISTS (SELECT 1 FROM pawl.queues q WHERE q.namespace = $1 AND q.type = h.type)
  OR EXISTS (SELECT 1 FROM pawl.types t WHERE t.namespace = $1 AND t.name = h.type)`, m.Namespace)
	})
	return out, err
}

// leave removes the rows of a namespace from the source, and the triggers. Only new tasks are refused from then
// on, for processes that have not learned that the namespace is gone.
func (m *mover) leave(ctx context.Context) error {
	if err := m.tell(ctx); err != nil {
		return err
	}
	list := moved(m.Namespace)
	slices.SortStableFunc(list, func(a, b table) int { return cmp.Compare(rank(a.acts), rank(b.acts)) }) // last what acts
	for _, t := range slices.Backward(list) {
		if t.name == "queues" || t.name == "api_keys" {
			continue // counters of the queues stay, and who has a key is told where to go
		}
		if err := m.clearAll(ctx, m.from, &m.source, t); err != nil {
			return err
		}
		m.Step("cleared " + t.name)
	}
	return m.unwatchAll(ctx, m.from)
}

// tell waits until servers of the source have learned of the move: they would find rows missing.
func (m *mover) tell(ctx context.Context) error {
	if m.source.Detail.Told { // before an interruption
		return nil
	}
	timer := time.NewTimer(learnTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	return m.from.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		return setDetail(ctx, tx, &m.source, Detail{Told: true})
	})
}

func rank(late bool) int {
	if late {
		return 1
	}
	return 0
}

// clear removes some rows of a table from one side.
func (m *mover) clear(ctx context.Context, tx store.Tx, s *side, t table) (int, error) {
	r := reader{s, t, m.Namespace}
	rows, err := r.some(ctx, tx, clearedAtOnce)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	var keys [][]any
	for _, values := range rows {
		keys = append(keys, values)
	}
	if t.name == events {
		return len(rows), removeEvents(ctx, tx, keys)
	}
	if _, err := tx.Exec(ctx, "INSERT INTO pawl.retention_gate (reason)\nVALUES ('move')"); err != nil {
		return 0, err
	}
	if err := (writer{s, t, t.name}).remove(ctx, tx, keys, ""); err != nil {
		return 0, err
	}
	_, err = tx.Exec(ctx, "DELETE FROM pawl.retention_gate")
	return len(rows), err
}

// removeEvents removes events as retention does: the log keeps their leaves, and knows that they are gone.
func removeEvents(ctx context.Context, tx store.Tx, keys [][]any) error {
	var ids []int64
	var tasks []string
	seen := map[store.TaskID]bool{}
	for _, key := range keys {
		id := key[0].(int64)
		var task store.TaskID
		found, err := store.Row(ctx, tx, []any{&task}, "SELECT task_id\nFROM pawl.task_events\nWHERE id = $1", id)
		if err != nil {
			return err
		}
		if found {
			ids = append(ids, id)
		}
		if found && !seen[task] {
			seen[task] = true
			tasks = append(tasks, string(task))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return store.RemoveEvents(ctx, tx, tasks, ids)
}
