package relocate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// giveAway fences the source, copies what is left, verifies the target and gives it away.
func (m *mover) giveAway(ctx context.Context) (err error) {
	clean, err := m.cleanEarly(ctx)
	if err != nil {
		return err
	}
	began := clock.Now()
	defer func() {
		if err != nil && !m.source.Left() {
			err = errors.Join(err, m.unfence(context.WithoutCancel(ctx)))
		}
	}()
	for range rounds {
		if err := m.fence(ctx); err != nil {
			return err
		}
		m.Step("fenced")
		if err := m.rest(ctx); err != nil {
			return err
		}
		if err := m.verify(ctx, clean); err != nil {
			return err
		}
		m.Step("verified")
		flipped, err := m.flip(ctx)
		if err != nil {
			return err
		}
		if flipped {
			m.result.Paused = clock.Now().Sub(began)
			m.result.PausedMS = m.result.Paused.Milliseconds()
			m.Step("flipped")
			return nil
		}
	}
	return conflict("the source is written to all the time, also behind its fence")
}

// fence refuses changes of the source from now on. Every change before it is committed and noted.
func (m *mover) fence(ctx context.Context) error {
	return m.from.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := m.from.fences().Last(ctx, tx); err != nil {
			return err
		}
		return setStep(ctx, tx, &m.source, Fenced, m.from.fences().Clock, FenceTime)
	})
}

func (m *mover) unfence(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, 10*time.Second)
	defer stop()
	return m.from.db.Do(ctx, func(ctx context.Context, tx store.Tx) error { return setStep(ctx, tx, &m.source, Copying, "", 0) })
}

// rest copies what is left behind the fence: the last changes, and the positions of the last events. Servers
// that have not learned of the fence give events positions for a moment still.
func (m *mover) rest(ctx context.Context) error {
	for began := clock.Now(); clock.Now().Sub(began) < FenceTime/2; {
		if _, err := m.catchUp(ctx); err != nil {
			return err
		}
		if err := m.Settle(ctx); err != nil {
			return err
		}
		if n, err := m.catchUp(ctx); err != nil || n == 0 {
			return err
		}
	}
	return conflict("the log of the source grows all the time, also behind its fence")
}

// cleanEarly examines the target of a whole database while the source is used: behind the fence a large one would
// keep writers waiting. Changes that are not copied yet may look like breaches: then it is examined again, in the end
// behind the fence.
func (m *mover) cleanEarly(ctx context.Context) (clean bool, err error) {
	for n := 0; m.Namespace == "" && !clean && n < examinations; n++ {
		why := m.Check(ctx)
		if clean = why == nil; !clean {
			m.Log.InfoContext(ctx, "the target is examined again", "why", why)
		}
		if err := m.catchUpBeside(ctx); err != nil { // the examination took time
			return false, err
		}
	}
	return clean, nil
}

// verify compares the target with the source. clean: it was examined before.
func (m *mover) verify(ctx context.Context, clean bool) error {
	for _, t := range moved(m.Namespace) {
		var counts [2]int64
		for i, s := range []*side{m.from, m.to} {
			err := s.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
				r := reader{s, t, m.Namespace}
				if as := t.stage(m.Namespace); s == m.to && as != t.name { // all of its rows
					r.name, r.namespace = as, ""
				}
				counts[i], err = r.count(ctx, tx)
				return err
			})
			if err != nil {
				return err
			}
		}
		if counts[0] != counts[1] && (m.Namespace == "" || named[t.name] == nil) {
			return conflict("table %s has %d rows in the source and %d in the target", t.name, counts[0], counts[1])
		}
		m.result.Rows[t.name] = counts[0]
	}
	if m.Namespace != "" {
		return nil // the log of the target is its own, and its rows are checked when they are all there
	}
	if err := m.compareLogs(ctx); err != nil {
		return err
	}
	if err := m.adapt(ctx); err != nil || clean {
		return err
	}
	return m.Check(ctx)
}

// compareLogs compares the roots of both logs.
func (m *mover) compareLogs(ctx context.Context) error {
	var roots [2]string
	for i, s := range []*side{m.from, m.to} {
		err := s.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
			tree, err := store.ReadTree(ctx, tx)
			if err == nil {
				roots[i], err = store.RootOfFirst(ctx, tx, tree.Size)
				roots[i] = cmp.Or(roots[i], fmt.Sprint(tree.Size))
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if roots[0] != roots[1] {
		return conflict("the log of the target has another root than that of the source")
	}
	return nil
}

// adapt changes in the target what differs by database.
func (m *mover) adapt(ctx context.Context) error {
	return within(ctx, m.to.db, &m.target, func(ctx context.Context, tx store.Tx) error {
		for _, t := range moved(m.Namespace) {
			if !t.numbered {
				continue
			}
			least := int64(0)
			if t.name == events { // the newest ones may be gone
				s, err := store.ReadFeed(ctx, tx)
				if err != nil {
					return err
				}
				least = s.Top
			}
			if err := m.to.fences().Renumber(ctx, tx, t.name, least); err != nil {
				return err
			}
		}
		return m.adaptFeed(ctx, tx)
	})
}

// flip gives the source's rows away, if nothing was written since they were copied.
func (m *mover) flip(ctx context.Context) (flipped bool, err error) {
	err = m.from.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		flipped = false
		if err := m.from.fences().Last(ctx, tx); err != nil {
			return err
		}
		var id int64
		more, err := store.Row(ctx, tx, []any{&id}, "SELECT id\nFROM pawl.relocation_changes\nLIMIT 1")
		if err != nil || more {
			return err
		}
		flipped, m.source.URL = true, m.URL
		return setStep(ctx, tx, &m.source, Flipped, "", 0)
	})
	return flipped, err
}
