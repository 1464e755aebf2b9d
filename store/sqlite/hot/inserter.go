package hot

import (
	"context"
	"regexp"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl/store"
)

// rowsAtOnce is how many rows an inserter inserts with one statement. To start and end a
// statement takes SQLite longer than to insert a row.
const rowsAtOnce = 16

// insert is a statement that inserts a row.
type insert struct {
	one, many string // many inserts rowsAtOnce rows
	width     int    // how many arguments a row has
}

var parameter = regexp.MustCompile(`\$\d+`)

func newInsert(one string) *insert {
	one = store.ExpandColumns(one)
	at := strings.Index(one, "\nVALUES (") + len("\nVALUES ")
	n := &insert{one: one}
	numbered := func(tuple string, from int) string {
		return parameter.ReplaceAllStringFunc(tuple, func(p string) string {
			number, _ := strconv.Atoi(p[1:]) // digits
			n.width = max(n.width, number)
			return "$" + strconv.Itoa(from+number)
		})
	}
	n.many = numbered(one, 0)
	width := n.width
	for row := 1; row < rowsAtOnce; row++ {
		n.many += ",\n  " + numbered(one[at:], row*width)
	}
	return n
}

// inserter collects rows that a verb inserts into one table. After the last row, flush must
// be called. The zero value with an insert is ready to use.
type inserter struct {
	*insert
	args []any
}

func (b *inserter) add(ctx context.Context, tx store.Tx, args ...any) error {
	b.args = append(b.args, args...)
	if len(b.args) < rowsAtOnce*b.width {
		return nil
	}
	_, err := tx.Exec(ctx, b.many, b.args...)
	b.args = b.args[:0]
	return err
}

// flush inserts the rows that inserters still have, in the order of the inserters.
func flush(ctx context.Context, tx store.Tx, all ...*inserter) error {
	for _, b := range all {
		for ; len(b.args) > 0; b.args = b.args[b.width:] {
			if _, err := tx.Exec(ctx, b.one, b.args[:b.width]...); err != nil {
				return err
			}
		}
	}
	return nil
}
