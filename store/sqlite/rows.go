package sqlite

import (
	"fmt"
	"reflect"

	direct "zombiezen.com/go/sqlite"

	"github.com/pawl-work/pawl/store"
)

// rows implements store.Rows.
type rows struct {
	conn   *conn
	tx     *tx
	stmt   *stmt
	ahead  bool // the statement is at a row that Next has not returned yet
	begun  bool
	closed bool
	err    error
}

var _ store.Rows = (*rows)(nil)

func (r *rows) Next() bool {
	if r.closed {
		return false
	}
	if r.begun {
		var err error
		if r.ahead, err = r.stmt.Step(); err != nil {
			r.err = r.conn.fail(err)
		}
	}
	r.begun = true
	if !r.ahead || r.err != nil {
		r.Close()
		return false
	}
	return true
}

func (r *rows) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.conn.closed(r)
	r.stmt.end()
}

func (r *rows) Err() error { return r.tx.fail(r.err) }

func (r *rows) Scan(dest ...any) error {
	if n := r.stmt.ColumnCount(); n != len(dest) {
		return classify(fmt.Errorf("sqlite: %d columns do not go into %d variables", n, len(dest)))
	}
	for i, d := range dest {
		if err := r.scan(i, d); err != nil {
			return classify(fmt.Errorf("sqlite: column %d: %w", i, err))
		}
	}
	return nil
}

func (r *rows) scan(i int, dest any) error {
	kind := r.stmt.ColumnType(i)
	switch d := dest.(type) {
	case *string:
		if kind == direct.TypeText {
			*d = r.stmt.ColumnText(i)
			return nil
		}
	case *store.Text:
		switch kind {
		case direct.TypeText:
			*d = store.Text(r.stmt.ColumnText(i))
			return nil
		case direct.TypeNull:
			*d = ""
			return nil
		}
	case store.IDTarget:
		var b [16]byte
		switch {
		case kind == direct.TypeNull:
			d.SetNull()
			return nil
		case kind == direct.TypeBlob && r.stmt.ColumnLen(i) == len(b):
			r.stmt.ColumnBytes(i, b[:])
			d.SetBytes(b)
			return nil
		}
	case store.BytesTarget:
		switch kind {
		case direct.TypeNull:
			d.Room(0)
			return nil
		case direct.TypeText, direct.TypeBlob:
			r.stmt.ColumnBytes(i, d.Room(r.stmt.ColumnLen(i)))
			return nil
		}
	case *int64:
		if kind == direct.TypeInteger {
			*d = r.stmt.ColumnInt64(i)
			return nil
		}
	case *int:
		if kind == direct.TypeInteger {
			*d = r.stmt.ColumnInt(i)
			return nil
		}
	}
	return assign(dest, r.value(i, kind))
}

func (r *rows) value(i int, kind direct.ColumnType) any {
	switch kind {
	case direct.TypeInteger:
		return r.stmt.ColumnInt64(i)
	case direct.TypeFloat:
		return r.stmt.ColumnFloat(i)
	case direct.TypeText:
		return r.stmt.ColumnText(i)
	case direct.TypeBlob:
		var b []byte // nil if it is empty
		if n := r.stmt.ColumnLen(i); n > 0 {
			b = make([]byte, n)
			r.stmt.ColumnBytes(i, b)
		}
		return b
	}
	return nil
}

// assign stores a column's value as database/sql does, for the types that Pawl uses.
func assign(dest, value any) error {
	if s, ok := dest.(interface{ Scan(value any) error }); ok {
		return s.Scan(value)
	}
	to := reflect.ValueOf(dest).Elem()
	if to.Kind() == reflect.Pointer {
		if value == nil {
			to.SetZero()
			return nil
		}
		to.Set(reflect.New(to.Type().Elem()))
		return assign(to.Interface(), value)
	}
	switch v := value.(type) {
	case int64:
		switch {
		case to.CanInt() && !to.OverflowInt(v):
			to.SetInt(v)
			return nil
		case to.Kind() == reflect.Bool && (v == 0 || v == 1):
			to.SetBool(v == 1)
			return nil
		}
	case float64:
		if to.CanFloat() {
			to.SetFloat(v)
			return nil
		}
	case string:
		if to.Kind() == reflect.String {
			to.SetString(v)
			return nil
		}
	}
	switch v := reflect.ValueOf(value); {
	case value == nil:
		if to.Kind() == reflect.Interface || to.Type() == bytesType {
			to.SetZero()
			return nil
		}
	case v.Type().AssignableTo(to.Type()):
		to.Set(v)
		return nil
	}
	return fmt.Errorf("a %T does not go into a %T", value, dest)
}

var bytesType = reflect.TypeFor[[]byte]()
