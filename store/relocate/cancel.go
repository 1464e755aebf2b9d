package relocate

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Cancelled is a move that was given up.
type Cancelled struct {
	ID        string `json:"id"`
	Namespace string `json:"namespace,omitempty"`
	Peer      string `json:"peer"`    // where the target is
	Cleared   bool   `json:"cleared"` // the target has forgotten the move, and has no rows of the namespace
}

// Cancel gives a move up. The source notes and refuses nothing any more; a mover that runs ends with a conflict. A source
// that was given away stays so: the target may act. With o.To, a target that others use gets rid of what was copied; nil =
// the target is lost, or is thrown away.
func Cancel(ctx context.Context, o Options) (Cancelled, error) {
	m := &mover{Options: o, from: &side{db: o.From}, to: &side{db: o.To}, token: o.NewID()}
	m.numbers = &numbers{m: m}
	m.numbers.forget()
	if err := m.from.read(ctx); err != nil {
		return Cancelled{}, err
	}
	err := m.cancelSource(ctx)
	if err == nil {
		err = m.unwatchAll(ctx, m.from)
	}
	if err == nil && m.target.ID == "" && o.To == nil {
		err = &pawl.Error{Code: pawl.CodeNotFound, Op: "move", Message: "there is no move to cancel"}
	}
	out := Cancelled{ID: m.target.ID, Namespace: o.Namespace, Peer: m.target.Peer}
	if err != nil || o.To == nil {
		return out, err
	}
	if err := m.to.read(ctx); err != nil {
		return out, err
	}
	out.Cleared, err = m.cancelTarget(ctx)
	if out.ID = m.target.ID; err == nil && out.ID == "" {
		err = &pawl.Error{Code: pawl.CodeNotFound, Op: "move", Message: "there is no move to cancel"}
	}
	return out, err
}

// cancelSource removes what the source knows of the move.
func (m *mover) cancelSource(ctx context.Context) error {
	return m.from.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		m.target = Relocation{}
		if err := m.from.fences().Last(ctx, tx); err != nil {
			return err
		}
		list, err := List(ctx, tx)
		if err != nil {
			return err
		}
		for _, r := range list {
			switch {
			case r.Side == Target && r.Moving():
				return conflict("the source is the target of a move from %s that is not over", r.Peer)
			case r.Side == Source && r.Left() && (r.Namespace == "" || r.Namespace == m.Namespace):
				return conflict("the switch to %s has happened and cannot be cancelled: run the move again to its end", r.Peer)
			case r.Side == Source && r.Left(): // another namespace
			case r.Side == Source && r.Namespace == m.Namespace:
				m.target = r
			case r.Side == Source:
				return conflict("a move of the source to %s is not over, and is of another namespace", r.Peer)
			}
		}
		if m.target.ID == "" {
			return nil
		}
		if _, err := tx.Exec(ctx, "DELETE FROM pawl.relocations\nWHERE id = $1", m.target.ID); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, "DELETE FROM pawl.relocation_changes")
		return err
	})
}

// cancelTarget removes what was copied of a namespace, in the target. A whole database that was copied in part is
// not mended: it stays refused, and is to be thrown away.
func (m *mover) cancelTarget(ctx context.Context) (cleared bool, err error) {
	err = m.to.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		list, err := List(ctx, tx)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(list, func(r Relocation) bool {
			return r.Side == Target && r.Moving() && r.Namespace == m.Namespace && (r.ID == m.target.ID || r.Peer == m.FromNamed)
		})
		if m.target = (Relocation{}); i < 0 {
			return nil
		}
		m.target = list[i]
		return take(ctx, tx, &m.target, m.token)
	})
	if err != nil || m.target.ID == "" || m.Namespace == "" {
		return false, err
	}
	if err := m.Settle(ctx); err != nil { // an event is removed when it has its leaf
		return false, err
	}
	list := moved(m.Namespace)
	for _, t := range slices.Backward(list) {
		if t.name == "queues" || t.acts { // queues without work do nothing; what acts waits in a table of its own
			continue
		}
		if err := m.clearAll(ctx, m.to, &m.target, t); err != nil {
			return false, err
		}
	}
	err = m.to.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		for _, t := range list {
			if as := t.stage(m.Namespace); as != t.name {
				if _, err := tx.Exec(ctx, "DROP TABLE IF EXISTS pawl."+as); err != nil {
					return err
				}
			}
		}
		if _, err := tx.Exec(ctx, "DELETE FROM pawl.relocation_numbers"); err != nil {
			return err
		}
		return mine(tx.Exec(ctx, "DELETE FROM pawl.relocations\nWHERE id = $1 AND mover = $2", m.target.ID, m.token))
	})
	if err == nil {
		err = m.unwatchAll(ctx, m.to)
	}
	return err == nil, err
}

// clearAll removes the rows of the namespace from a table.
func (m *mover) clearAll(ctx context.Context, s *side, of *Relocation, t table) error {
	for n := clearedAtOnce; n >= clearedAtOnce; {
		err := within(ctx, s.db, of, func(ctx context.Context, tx store.Tx) (err error) {
			n, err = m.clear(ctx, tx, s, t)
			return err
		})
		if err != nil {
			return fmt.Errorf("table %s: %w", t.name, err)
		}
	}
	return nil
}
