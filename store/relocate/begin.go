package relocate

import (
	"context"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// begin finds the move that was interrupted, or begins one.
func (m *mover) begin(ctx context.Context) error {
	var of, at []Relocation
	err := m.from.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		of, err = List(ctx, tx)
		return err
	})
	if err == nil {
		err = m.to.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			at, err = List(ctx, tx)
			return err
		})
	}
	if err != nil {
		return err
	}
	for _, r := range at {
		open := func(x Relocation) bool { return x.ID == r.ID && x.Step != done }
		if r.Side == Target && r.Namespace == m.Namespace && r.Peer == m.FromNamed && (r.Moving() || slices.ContainsFunc(of, open)) {
			m.target = r
		}
	}
	for _, r := range of {
		switch {
		case r.Side == Target && r.Moving():
			return conflict("the source is the target of a move from %s that is not over", r.Peer)
		case r.Side != Source || r.Step == done && r.Namespace != "" && r.Namespace != m.Namespace:
		case r.ID == m.target.ID:
			m.source = r
		case r.Step == done && r.Namespace == m.Namespace && slices.ContainsFunc(at, func(x Relocation) bool { return x.ID == r.ID }):
			m.source, m.target = r, r // it is done
			m.result.ID, m.result.Namespace, m.result.Rows = r.ID, m.Namespace, map[string]int64{}
			return nil
		case r.Left() && (r.Namespace == "" || r.Namespace == m.Namespace):
			return &pawl.Error{Code: pawl.CodeMoved, Op: "move", Message: "it was moved to " + r.Peer, URL: r.URL}
		case r.Step != done:
			return conflict("a move of the source to %s is not over: run it again", r.Peer)
		}
	}
	if err := m.goOn(ctx); err != nil {
		return err
	}
	if m.Namespace != "" && !m.target.Detail.begun() {
		if err := m.guard(ctx); err != nil {
			return err
		}
	}
	m.Step("target")
	if m.source.ID == "" {
		if m.target.Detail.begun() { // then what has changed since was not noted
			return conflict("the move was cancelled in the source, and what the target has is of before: move into an empty database")
		}
		if err := m.beginSource(ctx); err != nil {
			return err
		}
	}
	m.Step("source")
	m.result.ID, m.result.Namespace, m.result.Rows = m.target.ID, m.Namespace, map[string]int64{}
	return m.notRestoring(ctx) // again, also if the move goes on: from now on a restore knows of it
}

// notRestoring refuses to move a namespace while a task of it is being restored in parts: its row is of no namespace.
func (m *mover) notRestoring(ctx context.Context) error {
	if m.Namespace == "" || m.source.ID != "" && m.source.Step != Copying {
		return nil
	}
	return m.from.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		task, err := store.Restoring(ctx, tx, m.Namespace)
		if err == nil && task != "" {
			err = conflict("task %s is being restored from its archive: run the move again when it is there", task)
		}
		return err
	})
}

// goOn makes this process the one that goes on with a move, or begins it in the target. A mover that has not died writes
// nothing any more: two of them would write older rows over newer ones.
func (m *mover) goOn(ctx context.Context) error {
	if m.target.ID == "" {
		if err := m.notRestoring(ctx); err != nil {
			return err
		}
		return m.beginTarget(ctx)
	}
	err := m.to.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return take(ctx, tx, &m.target, m.token) })
	if err != nil || m.source.ID == "" {
		return err
	}
	return m.from.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return take(ctx, tx, &m.source, m.token) })
}

// beginTarget checks that the target has nothing of what comes, and lets nothing else be written.
func (m *mover) beginTarget(ctx context.Context) error {
	m.target = Relocation{ID: m.NewID(), Side: Target, Namespace: m.Namespace, Step: Copying, Peer: m.FromNamed, mover: m.token}
	return m.to.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := m.to.fences().Last(ctx, tx); err != nil {
			return err
		}
		known, err := List(ctx, tx) // after the lock: another mover may have begun
		if err != nil {
			return err
		}
		for _, r := range known {
			if r.Moving() || r.Left() && r.Namespace == "" {
				return conflict("the target takes part in another move, with %s", r.Peer)
			}
		}
		if m.Namespace == "" {
			for _, t := range moved("") {
				if err := m.watch(ctx, tx, m.to, t); err != nil {
					return err
				}
			}
		} else if err := m.stages(ctx, tx); err != nil {
			return err
		}
		if err := m.comesBack(ctx, tx, known); err != nil {
			return err
		}
		if err := m.empty(ctx, tx); err != nil {
			return err
		}
		return put(ctx, tx, &m.target)
	})
}

// guard makes the triggers of a target that others use, where nothing else may be written in the namespace. Each table has
// a transaction, as in the source. What was written before is found then.
func (m *mover) guard(ctx context.Context) error {
	if err := m.watchAll(ctx, m.to); err != nil {
		return err
	}
	return m.to.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := m.to.fences().Last(ctx, tx); err != nil {
			return err
		}
		return m.empty(ctx, tx)
	})
}

// comesBack forgets that the namespace has left from here: its tasks would be refused, and its keys are here still.
func (m *mover) comesBack(ctx context.Context, tx store.Tx, known []Relocation) error {
	for _, r := range known {
		if r.Side != Source || r.Step != done || r.Namespace == "" || r.Namespace != m.Namespace {
			continue
		}
		if _, err := tx.Exec(ctx, "DELETE FROM pawl.relocations\nWHERE id = $1", r.ID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, "DELETE FROM pawl.api_keys\nWHERE namespace = $1", m.Namespace); err != nil {
			return err
		}
	}
	return nil
}

// stages makes the tables where acting rows wait until the target has all.
func (m *mover) stages(ctx context.Context, tx store.Tx) error {
	for _, t := range moved(m.Namespace) {
		if !t.acts {
			continue
		}
		if _, err := tx.Exec(ctx, "DROP TABLE IF EXISTS pawl."+t.stage(m.Namespace)); err != nil {
			return err
		}
		for _, text := range m.to.fences().Stage(t.name, t.stage(m.Namespace), m.to.columns[t.name]) {
			if _, err := tx.Exec(ctx, text); err != nil {
				return err
			}
		}
	}
	_, err := tx.Exec(ctx, "DELETE FROM pawl.relocation_numbers")
	return err
}

// empty refuses a target that has rows. Those that every database has stay until others come in their place: a database
// without them cannot be opened.
func (m *mover) empty(ctx context.Context, tx store.Tx) error {
	for _, t := range moved(m.Namespace) {
		r := reader{m.to, t, m.Namespace}
		n, err := r.count(ctx, tx)
		if err != nil {
			return err
		}
		if n > 0 && t.do != seeded {
			if m.Namespace != "" {
				return conflict("the target has rows of the namespace %s: table %s", m.Namespace, t.name)
			}
			return conflict("the target is not empty: table %s has %d rows", t.name, n)
		}
	}
	return nil
}

// watch makes the triggers of a table.
func (m *mover) watch(ctx context.Context, tx store.Tx, s *side, t table) error {
	for _, text := range s.fences().Watch(t.name, s.columns[t.name], refusal(t), noted(t)) {
		if _, err := tx.Exec(ctx, text); err != nil {
			return err
		}
	}
	return nil
}

// watchAll makes the triggers of all tables. Each table has a transaction, because that of all would wait for writers
// that wait for it.
func (m *mover) watchAll(ctx context.Context, s *side) error {
	for _, t := range moved(m.Namespace) {
		if err := s.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return m.watch(ctx, tx, s, t) }); err != nil {
			return err
		}
	}
	return nil
}

// unwatchAll removes the triggers. Those of tasks stay where they refuse a namespace that has left.
func (m *mover) unwatchAll(ctx context.Context, s *side) error {
	for _, t := range moved(m.Namespace) {
		err := s.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
			if t.name == "tasks" {
				list, err := List(ctx, tx)
				if err != nil || slices.ContainsFunc(list, Relocation.Left) {
					return err
				}
			}
			for _, text := range s.fences().Unwatch(t.name) {
				if _, err := tx.Exec(ctx, text); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// noted is the condition by which a trigger notes a change. A row whose owner is gone may be of any namespace.
func noted(t table) string {
	of := "r.namespace = ''"
	if t.of != "" {
		of += " OR " + belongs(t.of, "$row", "r.namespace")
	}
	if gone := orphaned(t.of, "$row"); gone != "" {
		of += " OR " + gone
	}
	return "EXISTS (SELECT 1 FROM pawl.relocations r WHERE r.side = 'source' AND r.step IN ('copying', 'fenced') AND (" + of + "))"
}

// refusal is the condition by which a trigger refuses a change. It is the same in every move: a namespace that has left
// stays refused beside the next one.
func refusal(t table) string {
	steps := "r.side = 'target' AND r.step <> 'done' OR r.side = 'source' AND r.step IN ('flipped', 'done')"
	if !t.late {
		steps += " OR r.side = 'source' AND r.step = 'fenced' AND r.fenced_until > @clock"
	}
	of := "r.namespace = ''"
	if t.of != "" {
		of = "(" + of + " OR " + belongs(t.of, "$row", "r.namespace") + ")"
	}
	steps = "(" + steps + ") AND " + of
	return "EXISTS (SELECT 1 FROM pawl.relocations r WHERE r.open = 0 AND (" + steps + "))"
}

// beginSource makes the triggers that note changes. What was written before the move begins is committed then, and is copied with the bulk.
func (m *mover) beginSource(ctx context.Context) error {
	if err := m.watchAll(ctx, m.from); err != nil {
		return err
	}
	m.source = Relocation{ID: m.target.ID, Side: Source, Namespace: m.Namespace, Step: Copying, Peer: m.ToNamed, URL: m.URL, mover: m.token}
	err := m.from.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := m.from.fences().Last(ctx, tx); err != nil {
			return err
		}
		known, err := List(ctx, tx) // after the lock: another mover may have begun
		if err != nil {
			return err
		}
		for _, r := range known {
			if r.Side == Source && (r.Step != done || r.Namespace == "" || r.Namespace == m.Namespace) {
				return conflict("a move of the source to %s is not over: run it again", r.Peer)
			}
		}
		if _, err := tx.Exec(ctx, "DELETE FROM pawl.relocation_changes"); err != nil {
			return err
		}
		return put(ctx, tx, &m.source)
	})
	return err
}
