package relocate

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pawl-work/pawl/store"
)

// named are the columns by which a row of a dictionary is found in the target, of the tables whose
// numbers the target gives anew.
var named = map[string][]string{
	"queues": {"namespace", "type"},
	"actors": {"kind", "name"},
	"gates":  {"queue_id", "pointer", "key"},
}

// numbers are the numbers that rows have in the target.
type numbers struct {
	m     *mover
	known map[string]map[int64]int64
}

// dictionaries are few and are remembered; events are not.
func (n *numbers) learn(kind string, was, now int64) {
	if n.known[kind] == nil || len(n.known[kind]) > 100_000 {
		n.known[kind] = map[int64]int64{}
	}
	n.known[kind][was] = now
}

// now returns the number that a row has in the target. It makes the row of an actor that the target does not have.
func (n *numbers) now(ctx context.Context, tx store.Tx, kind string, was int64) (int64, bool, error) {
	if kind == "actors" && was == store.SystemActor {
		return was, true, nil
	}
	if id, found := n.known[kind][was]; found {
		return id, true, nil
	}
	var id int64
	found, err := store.Row(ctx, tx, []any{&id}, "SELECT now\nFROM pawl.relocation_numbers\nWHERE kind = $1 AND was = $2", kind, was)
	if err != nil || found {
		n.learn(kind, was, id)
		return id, found, err
	}
	if named[kind] == nil {
		return 0, false, nil
	}
	return n.make(ctx, tx, kind, was)
}

// make copies the row of a dictionary, and remembers its number.
func (n *numbers) make(ctx context.Context, tx store.Tx, kind string, was int64) (int64, bool, error) {
	t := tables[slices.IndexFunc(tables, func(t table) bool { return t.name == kind })]
	r := reader{n.m.from, t, ""}
	var rows []row
	left := bytesAtOnce
	err := n.m.from.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
		rows, err = r.at(ctx, tx, [][]any{{was}}, &left)
		return err
	})
	if err != nil || len(rows) == 0 {
		return 0, false, err
	}
	return n.put(ctx, tx, r, rows[0])
}

// put writes the row of a dictionary where its name is not known yet, or changes it.
func (n *numbers) put(ctx context.Context, tx store.Tx, r reader, values row) (id int64, found bool, err error) {
	var columns, set []string
	var args []any
	var was int64
	for i, c := range r.columns[r.name] {
		if c.Name == "id" {
			was = values[i].(int64)
			continue
		}
		v := values[i]
		if kind := r.maps[c.Name]; kind != "" {
			if v, _, err = n.now(ctx, tx, kind, v.(int64)); err != nil {
				return 0, false, err
			}
		}
		columns, args = append(columns, c.Name), append(args, v)
		if !slices.Contains(named[r.name], c.Name) {
			set = append(set, c.Name+" = excluded."+c.Name)
		}
	}
	do := "NOTHING"
	if len(set) > 0 {
		do = "UPDATE\nSET " + strings.Join(set, ", ")
	}
	key := named[r.name]
	if _, err = tx.Exec(ctx, fmt.Sprintf("INSERT INTO pawl.%s (%s)\nVALUES (%s)\nON CONFLICT (%s) DO %s", r.name, strings.Join(columns, ", "),
		marks(1, len(columns)), strings.Join(key, ", "), do), args...); err != nil {
		return 0, false, err
	}
	var where []string
	var by []any
	for i, c := range key {
		where, by = append(where, fmt.Sprintf("%s = $%d", c, i+1)), append(by, args[slices.Index(columns, c)])
	}
	if _, err = store.Row(ctx, tx, []any{&id}, "SELECT id\nFROM pawl."+r.name+"\nWHERE "+strings.Join(where, " AND "), by...); err != nil {
		return 0, false, err
	}
	n.learn(r.name, was, id)
	_, err = tx.Exec(ctx, putNumber, r.name, was, id)
	return id, true, err
}

const putNumber = "INSERT INTO pawl.relocation_numbers (kind, was, now)\nVALUES ($1, $2, $3)\n" +
	"ON CONFLICT (kind, was) DO UPDATE\nSET now = excluded.now"

// renumber gives rows the numbers that they have in the target. Rows of dictionaries are written, and are not
// returned.
func (n *numbers) renumber(ctx context.Context, tx store.Tx, r reader, rows []row) (out []row, err error) {
	if named[r.name] != nil {
		for _, values := range rows {
			if _, _, err := n.put(ctx, tx, r, values); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	for i, c := range r.columns[r.name] { // those of events may be of an archived task, or of one that was deleted
		kind := r.maps[c.Name]
		if kind == "" || named[kind] != nil {
			continue
		}
		var ids []int64
		for _, values := range rows {
			if id, is := values[i].(int64); is {
				ids = append(ids, id)
			}
		}
		if _, err := n.draw(ctx, tx, kind, ids, r.name == kind); err != nil {
			return nil, err
		}
	}
	for _, values := range rows {
		values = slices.Clone(values)
		for i, c := range r.columns[r.name] {
			was, is := values[i].(int64)
			if kind := r.maps[c.Name]; kind != "" && is {
				id, found, err := n.now(ctx, tx, kind, was)
				if err != nil {
					return nil, err
				}
				if !found {
					return nil, fmt.Errorf("table %s: the row %d of %s is not there", r.name, was, kind)
				}
				values[i] = id
			}
		}
		out = append(out, values)
	}
	return out, nil
}

// draw returns the numbers in the target of rows of a table. Those that have none get one. inserted says that
// the transaction inserts the rows: then those that the target does not have get new ones, because readers of the
// feed, and the log, may be past the numbers that an archive of the task had drawn.
func (n *numbers) draw(ctx context.Context, tx store.Tx, kind string, ids []int64, inserted bool) (map[int64]int64, error) {
	out := map[int64]int64{}
	if len(ids) == 0 {
		return out, nil
	}
	fresh := map[int64]bool{}
	for _, id := range ids {
		fresh[id] = true
	}
	err := store.EachRow(ctx, tx, func(rows store.Rows) error {
		var was, now int64
		err := rows.Scan(&was, &now)
		if fresh[was] {
			out[was] = now
			delete(fresh, was)
		}
		return err
	}, "SELECT was, now\nFROM pawl.relocation_numbers\nWHERE kind = $1 AND was >= $2 AND was <= $3", kind, slices.Min(ids), slices.Max(ids))
	if err == nil && inserted {
		err = n.absent(ctx, tx, kind, out, fresh)
	}
	if err == nil && len(fresh) > 0 {
		var drawn []int64
		drawn, err = n.m.to.fences().Draw(ctx, tx, kind, len(fresh))
		var args [][]any
		for i, was := range slices.Sorted(maps.Keys(fresh)) {
			if err != nil {
				return nil, err
			}
			out[was] = drawn[i]
			args = append(args, []any{kind, was, drawn[i]})
		}
		err = tx.ExecEach(ctx, putNumber, args)
	}
	for was, now := range out {
		n.learn(kind, was, now)
	}
	return out, err
}

// absent finds numbers whose rows the target does not have, and moves them from known to fresh.
func (n *numbers) absent(ctx context.Context, tx store.Tx, kind string, known map[int64]int64, fresh map[int64]bool) error {
	if kind != events { // rows that no reader follows
		return nil
	}
	for was, now := range known {
		var id int64
		there, err := store.Row(ctx, tx, []any{&id}, "SELECT id\nFROM pawl."+kind+"\nWHERE id = $1", now)
		if err != nil {
			return err
		}
		if !there {
			fresh[was] = true
			delete(known, was)
		}
	}
	return nil
}

// keys gives the keys of removed rows the numbers of the target. A row that the target does not have has none.
func (n *numbers) keys(ctx context.Context, tx store.Tx, r reader, keys [][]any) (out [][]any, err error) {
	if named[r.name] != nil {
		return nil, nil // the rows of dictionaries stay
	}
	columns := store.KeyColumns(r.columns[r.name])
	for _, key := range keys {
		key, all := slices.Clone(key), true
		for i, c := range columns {
			kind := r.maps[c.Name]
			if kind == "" {
				continue
			}
			var id int64
			found := false
			if id, found = n.known[kind][key[i].(int64)]; !found {
				found, err = store.Row(ctx, tx, []any{&id}, "SELECT now\nFROM pawl.relocation_numbers\nWHERE kind = $1 AND was = $2", kind, key[i])
			}
			if err != nil {
				return nil, err
			}
			key[i], all = id, all && found
		}
		if all {
			out = append(out, key)
		}
	}
	return out, nil
}

// forget begins anew after a transaction that failed: what it has learned may be undone.
func (n *numbers) forget() { n.known = map[string]map[int64]int64{} }
