package hot

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/store"
)

// recorder is a transaction that records its statements.
type recorder struct {
	store.Tx
	rows []string
}

func (r *recorder) Exec(_ context.Context, query string, args ...any) (int64, error) {
	r.rows = append(r.rows, fmt.Sprint(strings.Count(query, "("), args))
	return 0, nil
}

// Rows are inserted in their order, rowsAtOnce by one statement, and those that remain one
// by one. The parameters of each row follow those of the row before; a text may name a
// parameter twice.
func TestInserter(t *testing.T) {
	n := newInsert("INSERT INTO t (a, b, c)\nVALUES ($1, $2, $1)")
	if n.width != 2 || !strings.HasPrefix(n.many, n.one+",\n  ($3, $4, $3),\n  ($5, $6, $5)") ||
		!strings.HasSuffix(n.many, "($31, $32, $31)") {
		t.Errorf("%d arguments a row:\n%s", n.width, n.many)
	}
	var tx recorder
	b := inserter{insert: n}
	for i := range rowsAtOnce + 2 {
		if err := b.add(t.Context(), &tx, i, -i); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a second flush has nothing to insert
		if err := flush(t.Context(), &tx, &b); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(tx.rows[1:]); len(tx.rows) != 3 || got != "[2 [16 -16] 2 [17 -17]]" {
		t.Errorf("%q", tx.rows)
	}
}
