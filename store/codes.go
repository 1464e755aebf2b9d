package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

// codes has the code of every event that the root package's table lists.
var codes = func() map[MoveCode]int {
	out := make(map[MoveCode]int, len(MoveCodes))
	for _, m := range MoveCodes {
		code := m.Code
		m.Code = 0
		out[m] = code
	}
	return out
}()

// EventCode returns the code of an event of a task or, if item is not "", of an item: see classOf.
func EventCode(item string, solo int, event, from, to, taskFrom, taskTo string) (int, error) {
	return codeOf(MoveCode{Class: classOf(item, solo), Event: event, From: from, To: to, TaskFrom: taskFrom, TaskTo: taskTo})
}

// codeOf returns the code of an event. It is an internal error if the table of moves does
// not allow the event.
func codeOf(m MoveCode) (int, error) {
	m.Code = 0
	if code, legal := codes[m]; legal {
		return code, nil
	}
	return 0, &pawl.Error{Code: pawl.CodeInternal, Message: fmt.Sprintf("the tables of moves do not allow this event: %+v", m)}
}

// moveOf returns what a code stands for. A code that only a newer program knows has its
// number as the event's name, and known is false: see moveFrom.
func moveOf(code int) (m MoveCode, known bool) {
	if code >= 1 && code <= len(MoveCodes) {
		return MoveCodes[code-1], true
	}
	return MoveCode{Code: code, Event: "move_" + strconv.Itoa(code)}, false
}

// MoveFrom is moveOf for any code: what this program does not know it reads from the
// database. Call it while no rows of the transaction are open.
func MoveFrom(ctx context.Context, tx Tx, code int) (MoveCode, error) {
	if m, known := moveOf(code); known {
		return m, nil
	}
	m, _ := moveOf(code) // a variable of its own: it is on the heap
	var from, to, taskFrom, taskTo Text
	_, err := Row(ctx, tx, []any{&m.Class, &m.Event, &from, &to, &taskFrom, &taskTo}, readSQL["move"], code)
	m.From, m.To, m.TaskFrom, m.TaskTo = string(from), string(to), string(taskFrom), string(taskTo)
	return m, err
}

// codesOf returns the codes of the events with the property, as a list in SQL. An empty
// list has the code 0, which no event has.
func codesOf(which func(m MoveCode) bool) string {
	var out []string
	for _, m := range MoveCodes {
		if which(m) {
			out = append(out, strconv.Itoa(m.Code))
		}
	}
	if len(out) == 0 {
		out = []string{"0"}
	}
	return "(" + strings.Join(out, ", ") + ")"
}

// moveMark is the argument of @move(event, from, to, whose).
type moveMark struct{ event, from, to string }

// moveExpression returns the expression that @move(event, from, to, whose) stands for: the
// code of the event that a statement inserts. event is its name, or "to" for the name of
// the new state. from and to are states: 'quoted', - for none, or an expression of the
// row: from with the number of an item's state, to with a name. whose is a class, or the
// expression of the row's solo. The expression is NULL for a row whose event is not legal,
// which the table refuses.
func moveExpression(arg string) string {
	parts := strings.Split(arg, ", ")
	if len(parts) != 4 {
		panic("store: not an event, two states and whose they are: @move(" + arg + ")")
	}
	m := moveMark{parts[0], parts[1], parts[2]}
	if whose := parts[3]; !slices.Contains([]string{MoveOfTask, MoveOfItem, MoveOfOnly}, whose) {
		item := m.of(MoveOfItem)
		return fmt.Sprintf("CASE %s WHEN 1 THEN %s WHEN 0 THEN %s WHEN %d THEN %s END", whose, m.of(MoveOfOnly), item, Aside, item)
	}
	return m.of(parts[3])
}

// of returns the expression for the events of one class.
func (m moveMark) of(class string) string {
	var legal []MoveCode
	for _, c := range MoveCodes {
		if c.Class == class && (c.Event == m.event || m.event == "to" && c.Event == c.To) && fits(m.from, c.From) && fits(m.to, c.To) {
			legal = append(legal, c)
		}
	}
	return choose(m.from, legal, func(c MoveCode) string { return c.From }, stateCode, func(same []MoveCode) string {
		return choose(m.to, same, func(c MoveCode) string { return c.To }, quoted, func(same []MoveCode) string {
			if len(same) != 1 {
				panic(fmt.Sprintf("store: %d events of a %s are %+v", len(same), class, m)) // the texts of statements are part of the program
			}
			return strconv.Itoa(same[0].Code)
		})
	})
}

func isFixed(state string) bool { return state == "-" || strings.HasPrefix(state, "'") }

// fits reports whether an event with the given state is one of those that a mark's state
// stands for.
func fits(mark, state string) bool { return !isFixed(mark) || strings.Trim(mark, "-'") == state }

func quoted(state string) string { return "'" + state + "'" }

// choose returns a CASE over the states that the events have, if the mark's state is an
// expression.
func choose(mark string, legal []MoveCode, state func(MoveCode) string, written func(string) string,
	then func([]MoveCode) string) string {
	if isFixed(mark) {
		return then(legal)
	}
	var b strings.Builder
	b.WriteString("CASE " + mark)
	var done []string
	for _, c := range legal {
		if s := state(c); !slices.Contains(done, s) {
			done = append(done, s)
			same := slices.DeleteFunc(slices.Clone(legal), func(o MoveCode) bool { return state(o) != s })
			fmt.Fprintf(&b, " WHEN %s THEN %s", written(s), then(same))
		}
	}
	return b.String() + " END"
}
