package relocate

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl/store"
)

const (
	// rowsAtOnce and bytesAtOnce bound what one transaction copies.
	rowsAtOnce  = 2000
	bytesAtOnce = 4 << 20
	// rowsOfStatement is how many rows one statement inserts.
	rowsOfStatement = 50
)

// row has the values of a row: nil, int64, string or []byte.
type row []any

func (r row) bytes() (n int) {
	for _, v := range r {
		switch v := v.(type) {
		case string:
			n += len(v)
		case []byte:
			n += len(v)
		}
	}
	return n
}

// plain makes a value the same, whichever database returned it.
func plain(v any) (any, error) {
	switch v := v.(type) {
	case nil, int64, string:
		return v, nil
	case int32:
		return int64(v), nil
	case int16:
		return int64(v), nil
	case []byte:
		return bytes.Clone(v), nil
	case [16]byte:
		return v[:], nil
	}
	return nil, fmt.Errorf("a column has a value of the type %T", v)
}

// side is one database of a move.
type side struct {
	db      store.DB
	columns map[string][]store.TableColumn
}

func (s *side) fences() *store.Fences { return s.db.Dialect().Fences }

func (s *side) read(ctx context.Context) error {
	s.columns = map[string][]store.TableColumn{}
	return s.db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		names, err := s.fences().Tables(ctx, tx)
		if err != nil {
			return err
		}
		for _, name := range names {
			if s.columns[name], err = s.fences().Columns(ctx, tx, name); err != nil {
				return err
			}
		}
		return nil
	})
}

// list joins names with a prefix.
func list(prefix string, names []string) string {
	return prefix + strings.Join(names, ", "+prefix)
}

func marks(from, n int) string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("$%d", from+i)
	}
	return strings.Join(out, ", ")
}

// reader reads the rows of a table in the order of its key.
type reader struct {
	*side
	table
	namespace string
}

// where returns the conditions of the rows that move, and its arguments.
func (r reader) where() (text string, args []any) {
	if r.namespace == "" {
		return "", nil
	}
	return belongs(r.of, "t", "$1"), []any{r.namespace}
}

// after reads rows whose keys follow one; nil = from the first one.
func (r reader) after(ctx context.Context, tx store.Tx, key []any) ([]row, error) {
	columns := r.columns[r.name]
	keys := store.KeyColumns(columns)
	where, args := r.where()
	if key != nil {
		if where != "" {
			where += " AND "
		}
		where += "(" + list("t.", store.ColumnNames(keys)) + ") > (" + marks(len(args)+1, len(keys)) + ")"
		for i, v := range key {
			args = append(args, r.fences().Value(keys[i], v))
		}
	}
	if where != "" {
		where = "\nWHERE " + where
	}
	query := fmt.Sprintf("SELECT %s\nFROM pawl.%s t%s\nORDER BY %s\nLIMIT %d", list("t.", store.ColumnNames(columns)), r.name, where,
		list("t.", store.ColumnNames(keys)), rowsAtOnce)
	return r.rows(ctx, tx, query, args...)
}

// errLarge says that rows have more bytes than are left.
var errLarge = errors.New("the rows are too large to be copied at once")

// at reads the rows that have one of the keys. It takes their bytes from left; below 0, it stops with errLarge.
func (r reader) at(ctx context.Context, tx store.Tx, keys [][]any, left *int) (out []row, err error) {
	for len(keys) > 0 {
		n := 1
		if len(keys) >= rowsOfStatement {
			n = rowsOfStatement // two texts for each table
		}
		found, err := r.among(ctx, tx, keys[:n], *left+1)
		if err != nil {
			return nil, err
		}
		for _, values := range found {
			*left -= values.bytes()
		}
		if *left < 0 {
			return nil, errLarge
		}
		out, keys = append(out, found...), keys[n:]
	}
	return out, nil
}

func (r reader) among(ctx context.Context, tx store.Tx, keys [][]any, most int) ([]row, error) {
	columns := r.columns[r.name]
	by := store.KeyColumns(columns)
	where, args := r.where()
	if where != "" {
		where += " AND "
	}
	var some []string // PostgreSQL would take parameters in VALUES for texts
	for _, key := range keys {
		var all []string
		for i, v := range key {
			args = append(args, r.fences().Value(by[i], v))
			all = append(all, fmt.Sprintf("t.%s = $%d", by[i].Name, len(args)))
		}
		some = append(some, strings.Join(all, " AND "))
	}
	where += "(" + strings.Join(some, " OR ") + ")"
	query := fmt.Sprintf("SELECT %s\nFROM pawl.%s t\nWHERE %s", list("t.", store.ColumnNames(columns)), r.name, where)
	return r.upTo(ctx, tx, most, query, args...)
}

func (r reader) rows(ctx context.Context, tx store.Tx, query string, args ...any) ([]row, error) {
	return r.upTo(ctx, tx, bytesAtOnce, query, args...)
}

func (r reader) upTo(ctx context.Context, tx store.Tx, most int, query string, args ...any) (out []row, err error) {
	n, size := len(r.columns[r.name]), 0
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for size < most && rows.Next() {
		values, to := make(row, n), make([]any, n)
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		for i := range values {
			if values[i], err = plain(values[i]); err != nil {
				return nil, fmt.Errorf("table %s: %w", r.name, err)
			}
		}
		size += values.bytes()
		out = append(out, values)
	}
	return out, rows.Err()
}

// count counts the rows that move.
func (r reader) count(ctx context.Context, tx store.Tx) (n int64, err error) {
	where, args := r.where()
	if where != "" {
		where = "\nWHERE " + where
	}
	_, err = store.Row(ctx, tx, []any{&n}, "SELECT COUNT(*)\nFROM pawl."+r.name+" t"+where, args...)
	return n, err
}

// key returns the key of a row.
func (r reader) key(values row) (out []any) {
	columns := r.columns[r.name]
	for _, k := range store.KeyColumns(columns) {
		out = append(out, values[r.index(k.Name)])
	}
	return out
}

// index is where a column is in a row; below 0 = the table does not have it.
func (r reader) index(column string) int {
	return slices.IndexFunc(r.columns[r.name], func(c store.TableColumn) bool { return c.Name == column })
}

// column returns a function that reads a column of a row.
func (r reader) column(values row) func(name string) any {
	return func(name string) any { return values[r.index(name)] }
}

// parse reads the text of a key that a trigger has noted, or Detail.
func (r reader) parse(text string) ([]any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var key []any
	if err := d.Decode(&key); err != nil {
		return nil, err
	}
	return r.typed(key)
}

func (r reader) typed(key []any) (_ []any, err error) {
	columns := store.KeyColumns(r.columns[r.name])
	if len(key) != len(columns) {
		return nil, fmt.Errorf("table %s: a key has %d values", r.name, len(key))
	}
	out := make([]any, len(key))
	for i, v := range key {
		switch v := v.(type) {
		case json.Number:
			out[i], err = v.Int64()
		case string:
			out[i] = v
			if k := columns[i].Kind; k == store.BytesColumn || k == store.UUIDColumn {
				out[i], err = hex.DecodeString(strings.ReplaceAll(strings.TrimPrefix(v, `\x`), "-", ""))
			}
		default:
			err = fmt.Errorf("table %s: a key has a value of the type %T", r.name, v)
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// text writes a key as a trigger does.
func text(key []any) (out []any) {
	for _, v := range key {
		if b, ok := v.([]byte); ok {
			v = hex.EncodeToString(b)
		}
		out = append(out, v)
	}
	return out
}

// writer writes rows into a table of the target.
type writer struct {
	*side
	table
	as string // the name of the table that gets the rows
}

// put inserts rows, or replaces those with the same keys. The values are in the order of columns.
func (w writer) put(ctx context.Context, tx store.Tx, columns []store.TableColumn, rows []row) error {
	own := w.columns[w.name]
	kinds := make([]store.TableColumn, len(columns))
	for i, c := range columns {
		kinds[i] = own[slices.IndexFunc(own, func(o store.TableColumn) bool { return o.Name == c.Name })]
	}
	var set []string
	for _, c := range kinds {
		if c.Key == 0 {
			set = append(set, c.Name+" = excluded."+c.Name)
		}
	}
	end := "\nON CONFLICT (" + strings.Join(store.ColumnNames(store.KeyColumns(own)), ", ") + ") DO "
	if w.fixed || len(set) == 0 {
		end += "NOTHING"
	} else {
		end += "UPDATE\nSET " + strings.Join(set, ", ")
	}
	head := "INSERT INTO pawl." + w.as + " (" + strings.Join(store.ColumnNames(kinds), ", ") + ")\nVALUES "
	var many [][]any
	for len(rows) >= rowsOfStatement {
		many = append(many, w.values(kinds, rows[:rowsOfStatement]))
		rows = rows[rowsOfStatement:]
	}
	if len(many) > 0 {
		var values []string
		for i := range rowsOfStatement {
			values = append(values, "("+marks(i*len(kinds)+1, len(kinds))+")")
		}
		if err := tx.ExecEach(ctx, head+strings.Join(values, ", ")+end, many); err != nil {
			return err
		}
	}
	var single [][]any
	for i := range rows {
		single = append(single, w.values(kinds, rows[i:i+1]))
	}
	if len(single) == 0 {
		return nil
	}
	return tx.ExecEach(ctx, head+"("+marks(1, len(kinds))+")"+end, single)
}

func (w writer) values(kinds []store.TableColumn, rows []row) []any {
	out := make([]any, 0, len(kinds)*len(rows))
	for _, r := range rows {
		for i, v := range r {
			out = append(out, w.fences().Value(kinds[i], v))
		}
	}
	return out
}

// remove removes the rows with these keys, of the namespace if it is given.
func (w writer) remove(ctx context.Context, tx store.Tx, keys [][]any, namespace string) error {
	var where []string
	by := store.KeyColumns(w.columns[w.name])
	for i, c := range by {
		where = append(where, fmt.Sprintf("t.%s = $%d", c.Name, i+1))
	}
	var args [][]any
	for _, key := range keys {
		of := make([]any, len(key))
		for i, v := range key {
			of[i] = w.fences().Value(by[i], v)
		}
		if direct := namespace != "" && w.as == w.name; direct {
			of = append(of, namespace)
		}
		args = append(args, of)
	}
	if namespace != "" && w.as == w.name { // rows of other namespaces stay
		where = append(where, belongs(w.of, "t", fmt.Sprintf("$%d", len(by)+1)))
	}
	if len(args) == 0 {
		return nil
	}
	of := "\nWHERE " + strings.Join(where, " AND ")
	if w.name == "leases" { // the effects of a lease that moves are not lost with it: those of one that counts them would be
		if err := tx.ExecEach(ctx, "UPDATE pawl."+w.as+" AS t\nSET effects = 0"+of+" AND t.effects <> 0", args); err != nil {
			return err
		}
	}
	return tx.ExecEach(ctx, "DELETE FROM pawl."+w.as+" AS t"+of, args)
}

// resume reads a key that Detail has.
func (r reader) resume(after []any) ([]any, error) {
	raw, err := json.Marshal(after)
	if err != nil {
		return nil, err
	}
	return r.parse(string(raw))
}

// some reads the keys of up to limit rows.
func (r reader) some(ctx context.Context, tx store.Tx, limit int) (out []row, err error) {
	where, args := r.where()
	keys := store.ColumnNames(store.KeyColumns(r.columns[r.name]))
	err = store.EachRow(ctx, tx, func(rows store.Rows) error {
		values, to := make(row, len(keys)), make([]any, len(keys))
		for i := range values {
			to[i] = &values[i]
		}
		if err := rows.Scan(to...); err != nil {
			return err
		}
		for i := range values {
			var err error
			if values[i], err = plain(values[i]); err != nil {
				return err
			}
		}
		out = append(out, values)
		return nil
	}, fmt.Sprintf("SELECT %s\nFROM pawl.%s t\nWHERE %s\nLIMIT %d", list("t.", keys), r.name, where, limit), args...)
	return out, err
}

// Counts counts the rows of a namespace by table; "" = all.
func Counts(ctx context.Context, db store.DB, namespace string) (map[string]int64, error) {
	out := map[string]int64{}
	return out, db.View(ctx, func(ctx context.Context, tx store.Tx) error {
		for _, t := range moved(namespace) {
			n, err := reader{&side{db: db}, t, namespace}.count(ctx, tx)
			if err != nil {
				return err
			}
			out[t.name] = n
		}
		return nil
	})
}
