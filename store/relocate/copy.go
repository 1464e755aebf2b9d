package relocate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// copy copies all rows.
func (m *mover) copy(ctx context.Context) error {
	list := moved(m.Namespace)
	first := max(0, slices.IndexFunc(list, func(t table) bool { return t.name == m.target.Detail.Table }))
	m.ordered = m.Namespace == "" || m.target.Detail.All || first > slices.IndexFunc(list, func(t table) bool { return t.name == events })
	for _, t := range list[first:] {
		if m.target.Detail.All {
			break
		}
		if err := m.bulk(ctx, t); err != nil {
			return err
		}
		m.ordered = m.ordered || t.name == events
		m.Step("copied " + t.name)
	}
	if !m.target.Detail.All {
		err := within(ctx, m.to.db, &m.target, func(ctx context.Context, tx store.Tx) error {
			return setDetail(ctx, tx, &m.target, Detail{All: true})
		})
		if err != nil {
			return err
		}
	}
	m.Step("copied")
	return nil
}

// catchUpBeside copies what has changed while the source is used, until little is left.
func (m *mover) catchUpBeside(ctx context.Context) error {
	last := math.MaxInt
	for range rounds {
		began := clock.Now()
		n, err := m.catchUp(ctx)
		if err != nil {
			return err
		}
		if n < fewChanges || clock.Now().Sub(began) < shortRound || n > last/2 { // others write about as fast as this copies
			break
		}
		last = n
	}
	m.Step("caught up")
	return nil
}

// bulk copies the rows of a table, from where it was interrupted.
func (m *mover) bulk(ctx context.Context, t table) error {
	r, w := reader{m.from, t, m.Namespace}, m.writer(t)
	var after []any
	d := m.target.Detail
	if d.Table == t.name && d.After != nil {
		var err error
		if after, err = r.resume(d.After); err != nil {
			return err
		}
	}
	bound, err := m.bound(ctx, t)
	if err != nil {
		return err
	}
	seen := map[int64]bool{}
	for tries := 0; ; {
		var rows []row
		err := m.from.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			rows, err = r.after(ctx, tx, after)
			return err
		})
		if err != nil {
			return err
		}
		if bound != 0 {
			rows = slices.DeleteFunc(rows, func(values row) bool { return r.key(values)[0].(int64) > bound })
		}
		first := after == nil && m.Namespace == "" && t.do == seeded
		if len(rows) == 0 && !first {
			return nil
		}
		if known, err := m.waits(ctx, r, rows, seen); err != nil {
			return err
		} else if !known { // the rows are read again after their events
			continue
		}
		var last []any
		if len(rows) > 0 {
			last = r.key(rows[len(rows)-1])
		}
		err = m.batch(ctx, r, w, rows, first, Detail{Table: t.name, After: text(last), Bound: bound})
		if refersToMissing(err) && tries < rounds { // a row that is not copied yet, or that another has replaced
			tries++
			if _, err = m.catchUp(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		m.Step("batch")
		if after, tries = last, 0; after == nil {
			return nil
		}
	}
}

// batch writes rows, and notes that it did. The first one of a table that every database has rows of replaces those.
func (m *mover) batch(ctx context.Context, r reader, w writer, rows []row, first bool, d Detail) error {
	return m.within(ctx, func(ctx context.Context, tx store.Tx) error {
		if first {
			if _, err := tx.Exec(ctx, "DELETE FROM pawl."+r.name); err != nil {
				return err
			}
		}
		if err := m.write(ctx, tx, r, w, rows); err != nil {
			return err
		}
		return setDetail(ctx, tx, &m.target, d)
	})
}

// bound returns the number of the last event that bulk copies. All that are visible later, and have
// a lower number than a visible one of their task, are below it: so numbers are drawn in the order of each task.
func (m *mover) bound(ctx context.Context, t table) (newest int64, err error) {
	if m.Namespace == "" || t.name != events {
		return 0, nil
	}
	if d := m.target.Detail; d.Table == t.name && d.Bound != 0 {
		return d.Bound, nil
	}
	err = m.from.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&newest}, "SELECT COALESCE(MAX(id), -1)\nFROM pawl.task_events")
		return err
	})
	if err != nil {
		return 0, err
	}
	return newest, within(ctx, m.to.db, &m.target, func(ctx context.Context, tx store.Tx) error {
		return setDetail(ctx, tx, &m.target, Detail{Table: t.name, Bound: newest})
	})
}

// waits copies changes if rows have numbers of events that are not in the target and not in seen: these
// events may be among the changes. It adds them to seen, and reports whether nothing was copied.
func (m *mover) waits(ctx context.Context, r reader, rows []row, seen map[int64]bool) (known bool, err error) {
	if m.Namespace == "" || r.name == events || !slices.Contains(slices.Collect(maps.Values(r.maps)), events) {
		return true, nil
	}
	known = true
	err = m.to.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		for _, values := range rows {
			for i, c := range r.columns[r.name] {
				id, is := values[i].(int64)
				if !is || r.maps[c.Name] != events || seen[id] {
					continue
				}
				_, found, err := m.numbers.now(ctx, tx, events, id)
				if err != nil {
					return err
				}
				if !found {
					known, seen[id] = false, true
				}
			}
		}
		return nil
	})
	if err == nil && !known {
		_, err = m.catchUp(ctx)
	}
	return known, err
}

// within runs fn in a transaction of the target.
func (m *mover) within(ctx context.Context, fn func(ctx context.Context, tx store.Tx) error) error {
	err := within(ctx, m.to.db, &m.target, func(ctx context.Context, tx store.Tx) error {
		m.numbers.forget()
		return fn(ctx, tx)
	})
	if err != nil {
		m.numbers.forget()
	}
	return err
}

func (m *mover) writer(t table) writer { return writer{m.to, t, t.stage(m.Namespace)} }

// write writes rows into the target. Those of a namespace get the numbers of the target.
func (m *mover) write(ctx context.Context, tx store.Tx, r reader, w writer, rows []row) (err error) {
	if r.name == "archives" || r.name == "segments" {
		if err := m.bodies(ctx, tx, r, rows); err != nil {
			return err
		}
	}
	if m.Namespace != "" && r.maps != nil {
		if rows, err = m.numbers.renumber(ctx, tx, r, rows); err != nil {
			return err
		}
	}
	if err := w.put(ctx, tx, r.columns[r.name], rows); err != nil {
		return fmt.Errorf("table %s: %w", r.name, err)
	}
	return nil
}

// bodies puts archives into their rows: the files are beside the source. Those of a namespace get the numbers
// that their events have in the target. An archive that cannot be read moves as it is.
func (m *mover) bodies(ctx context.Context, tx store.Tx, r reader, rows []row) error {
	for _, values := range rows {
		of := func(name string) *any {
			if i := r.index(name); i >= 0 {
				return &values[i]
			}
			return new(any)
		}
		path, body, sum, contents := of("path"), of("body"), of("sha256"), of("contents")
		file, inFile := (*path).(string)
		if inFile {
			found, err := m.Archive(file, (*sum).(string))
			if err != nil {
				m.Log.Warn("an archive cannot be read; its row is moved without it", "file", file, "error", err)
				continue
			}
			*path, *body = nil, found
		}
		stored, there := (*body).([]byte)
		if m.Namespace == "" || !there {
			continue
		}
		frames, _ := (*contents).([]byte)
		var failed error // of the database, and not of the archive
		g, err := m.Renumber(stored, frames, func(ids []int64) (now map[int64]int64, err error) {
			now, failed = m.numbers.draw(ctx, tx, events, ids, false)
			return now, failed
		})
		if failed != nil {
			return failed
		}
		if err != nil {
			m.Log.Warn("an archive cannot be read; it is moved as it is", "table", r.name, "error", err)
			continue
		}
		*body, *of("bytes"), *sum = g.Body, g.Bytes, g.SHA256
		*contents = store.PackFrames(g.Frames)
	}
	return nil
}

// refersToMissing reports whether the target refused rows because of other rows.
func refersToMissing(err error) bool {
	code := pawl.CodeOf(err)
	return err != nil && (code == pawl.CodeConflict || code == pawl.CodeInternal)
}

// change is what a trigger has noted.
type change struct {
	id         int64
	named, key string
}

// catchUp copies the rows anew that were noted before the call. It returns how many changes it has found. Before
// the events are copied, their changes are left: an event would get a lower number than an earlier one of its task.
func (m *mover) catchUp(ctx context.Context) (n int, err error) {
	left := ""
	for _, t := range moved(m.Namespace) {
		if !m.ordered && t.ofEvents() {
			left += ", '" + t.name + "'"
		}
	}
	if left != "" {
		left = " AND named NOT IN (" + strings.TrimPrefix(left, ", ") + ")"
	}
	var newest int64
	err = m.from.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		_, err := store.Row(ctx, tx, []any{&newest}, "SELECT COALESCE(MAX(id), 0)\nFROM pawl.relocation_changes")
		return err
	})
	if err != nil {
		return 0, err
	}
	for limit := rowsAtOnce; ; {
		var found []change
		fresh, gone := map[string][]row{}, map[string][][]any{}
		err := m.from.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
			found, fresh, gone = nil, map[string][]row{}, map[string][][]any{}
			err := store.EachRow(ctx, tx, func(rows store.Rows) error {
				var c change
				err := rows.Scan(&c.id, &c.named, &c.key)
				found = append(found, c)
				return err
			}, fmt.Sprintf("SELECT id, named, key\nFROM pawl.relocation_changes\nWHERE id <= $1%s\nORDER BY id\nLIMIT %d", left, limit), newest)
			if err != nil {
				return err
			}
			return m.present(ctx, tx, found, fresh, gone)
		})
		if errors.Is(err, errLarge) {
			limit = (limit + 15) / 16
			continue
		}
		if err != nil || len(found) == 0 {
			return n, err
		}
		if err := m.apply(ctx, fresh, gone); err != nil {
			return n, err
		}
		if err := m.forget(ctx, found); err != nil {
			return n, err
		}
		n += len(found)
		m.Step("changes")
		if len(found) < limit {
			return n, nil
		}
		limit = min(2*limit, rowsAtOnce)
	}
}

// forget removes the notes of changes that were copied.
func (m *mover) forget(ctx context.Context, found []change) error {
	return m.from.db.Do(ctx, func(ctx context.Context, tx store.Tx) error {
		if err := keep(ctx, tx, &m.source); err != nil { // they may be those of a later move
			return err
		}
		for rest := found; len(rest) > 0; {
			n := 1
			if len(rest) >= rowsOfStatement {
				n = rowsOfStatement
			}
			var ids []any
			for _, c := range rest[:n] {
				ids = append(ids, c.id)
			}
			if _, err := tx.Exec(ctx, "DELETE FROM pawl.relocation_changes\nWHERE id IN ("+marks(1, n)+")", ids...); err != nil {
				return err
			}
			rest = rest[n:]
		}
		return nil
	})
}

// present reads the rows that were noted as they are now, and which of them are gone. It refuses with errLarge several that
// have more than bytesAtOnce together.
func (m *mover) present(ctx context.Context, tx store.Tx, found []change, fresh map[string][]row, gone map[string][][]any) error {
	keys, most := map[string]map[string]bool{}, bytesAtOnce
	if len(found) == 1 {
		most = math.MaxInt - 1
	}
	for _, c := range found {
		if keys[c.named] == nil {
			keys[c.named] = map[string]bool{}
		}
		keys[c.named][c.key] = true
	}
	for _, t := range moved(m.Namespace) {
		r := reader{m.from, t, m.Namespace}
		var list [][]any
		for text := range keys[t.name] {
			key, err := r.parse(text)
			if err != nil {
				return err
			}
			list = append(list, key)
		}
		rows, err := r.at(ctx, tx, list, &most)
		if err != nil {
			return err
		}
		if free := frees[t.name]; free != nil {
			slices.SortStableFunc(rows, func(a, b row) int { return rank(free(r.column(b))) - rank(free(r.column(a))) })
		}
		there := map[string]bool{}
		for _, values := range rows {
			there[fmt.Sprint(r.key(values)...)] = true
		}
		fresh[t.name] = rows
		for _, key := range list {
			if !there[fmt.Sprint(key...)] || t.fixed && t.name != events {
				gone[t.name] = append(gone[t.name], key)
			}
		}
	}
	return nil
}

// apply writes into the target what present has found: first what is gone, from the last table to the
// first.
func (m *mover) apply(ctx context.Context, fresh map[string][]row, gone map[string][][]any) error {
	return m.within(ctx, func(ctx context.Context, tx store.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO pawl.retention_gate (reason)\nVALUES ('move')"); err != nil {
			return err
		}
		list := moved(m.Namespace)
		var removed [][]any
		for _, t := range slices.Backward(list) {
			keys := gone[t.name]
			if m.Namespace != "" && t.maps != nil {
				var err error
				if keys, err = m.numbers.keys(ctx, tx, reader{m.from, t, m.Namespace}, keys); err != nil {
					return err
				}
			}
			if m.Namespace != "" && t.name == events {
				removed = keys
				continue
			}
			if err := m.writer(t).remove(ctx, tx, keys, m.Namespace); err != nil {
				return fmt.Errorf("table %s: %w", t.name, err)
			}
		}
		if _, err := tx.Exec(ctx, "DELETE FROM pawl.retention_gate"); err != nil {
			return err
		}
		if err := removeEvents(ctx, tx, removed); err != nil {
			return err
		}
		for _, t := range list {
			if err := m.write(ctx, tx, reader{m.from, t, m.Namespace}, m.writer(t), fresh[t.name]); err != nil {
				return err
			}
		}
		return nil
	})
}
