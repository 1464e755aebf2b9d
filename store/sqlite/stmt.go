package sqlite

import (
	"database/sql/driver"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	direct "zombiezen.com/go/sqlite"

	"github.com/pawl-work/pawl/store"
)

const (
	// maxStatements bounds the statements that a connection keeps prepared.
	maxStatements = 512
	// largeArgument is the size from which an argument is cleared after use, instead of being
	// kept until the statement's next use.
	largeArgument = 16 << 10
)

// stmt is a prepared statement.
type stmt struct {
	*direct.Stmt
	args    []int // the number of each parameter's argument: $3 may be the first parameter
	kept    bool
	reading bool
	large   bool  // an argument is large
	bound   []any // what each parameter is bound to; nil = not known. SQLite keeps it from one use to the next.
}

func (s *stmt) numberParameters() (err error) {
	s.args = make([]int, s.BindParamCount())
	s.bound = make([]any, len(s.args))
	for i := range s.args {
		if s.args[i], err = strconv.Atoi(strings.TrimLeft(s.BindParamName(i+1), "$")); err != nil {
			return err
		}
		s.args[i]--
	}
	return nil
}

// finish runs the statement to its end.
func (s *stmt) finish() (err error) {
	for more := true; more && err == nil; {
		more, err = s.Step()
	}
	return err
}

// end prepares a kept statement for its next use, and finalizes any other.
func (s *stmt) end() {
	s.reading = false
	if !s.kept {
		_ = s.Finalize()
		return
	}
	_ = s.Reset() // repeats the error of Step
	if s.large {
		_ = s.ClearBindings()
		s.large = false
		clear(s.bound)
	}
}

func (s *stmt) bindAll(args []any) error {
	for i, n := range s.args {
		if n >= len(args) {
			return fmt.Errorf("sqlite: %d arguments, but a parameter $%d", len(args), n+1)
		}
		arg := args[n]
		switch arg.(type) {
		case string, store.Text, store.TaskID, store.ItemID, int64, int:
			if s.bound[i] == arg {
				continue
			}
			s.bound[i] = arg
		default:
			s.bound[i] = nil
		}
		if err := s.bind(i+1, arg); err != nil {
			return err
		}
	}
	return nil
}

func (s *stmt) bind(i int, arg any) error {
	switch v := arg.(type) {
	case nil:
		s.BindNull(i)
	case string:
		s.bindText(i, v)
	case int64:
		s.BindInt64(i, v)
	case int:
		s.BindInt64(i, int64(v))
	case store.Text:
		if v == "" {
			s.BindNull(i)
		} else {
			s.bindText(i, string(v))
		}
	case store.Digest:
		if v == (store.Digest{}) {
			s.BindNull(i)
		} else {
			s.BindBytes(i, v[:])
		}
	case store.ID:
		if b, ok := v.Bytes(); ok {
			s.BindBytes(i, b[:])
		} else {
			s.BindNull(i)
		}
	case bool:
		s.BindBool(i, v)
	case float64:
		s.BindFloat(i, v)
	case []byte:
		if v == nil {
			s.BindNull(i)
		} else {
			s.large = s.large || len(v) >= largeArgument
			s.BindBytes(i, v)
		}
	default:
		plain, err := driver.DefaultParameterConverter.ConvertValue(arg)
		if err != nil {
			return err
		}
		if !driver.IsValue(plain) || reflect.TypeOf(plain) == reflect.TypeOf(arg) {
			return fmt.Errorf("sqlite: a %T cannot be bound", arg)
		}
		return s.bind(i, plain)
	}
	return nil
}

func (s *stmt) bindText(i int, text string) {
	s.large = s.large || len(text) >= largeArgument
	s.BindText(i, text)
}
