package store

import "testing"

func TestExpandColumns(t *testing.T) {
	for mark, want := range map[string]string{
		"@columns(kept)":   "attempt, failures, rework",
		"@columns(l.kept)": "l.attempt, l.failures, l.rework",
		"SELECT @columns(kept, failures: failures + 1), state": "SELECT attempt, failures + 1, rework, state",
		"VALUES ($1, @values(kept, $2))":                       "VALUES ($1, $2, $3, $4)",
	} {
		if got := ExpandColumns(mark); got != want {
			t.Errorf("%s becomes %q, want %q", mark, got, want)
		}
	}
	for _, wrong := range []string{"@columns(carted)", "@columns(kept, solo: 1)", "@values(kept)"} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s is taken", wrong)
				}
			}()
			ExpandColumns(wrong)
		}()
	}
}

// The columns that finished_items keeps are carried columns, stored in the same fields.
func TestKeptIsCarried(t *testing.T) {
	var c Carried
	at := map[any]string{}
	for _, column := range c.Columns() {
		at[column.At] = column.Name
	}
	for _, column := range c.Kept() {
		if at[column.At] != column.Name {
			t.Errorf("%s is kept and not carried", column.Name)
		}
	}
}

func TestArraysOfColumns(t *testing.T) {
	for mark, want := range map[string]string{
		"@arrays(kept, $2)":                     "$2::int[], $3::int[], $4::int[]",
		"@arrays(kept, $2 + given)":             "$9::int[], $10::int[], $11::int[]",
		"@arrays(item_deps, $2 + given + kept)": "$12::uuid[], $13::uuid[]",
		"@filled(kept, $2)": "COALESCE(attempt, ($2::int[])[1]) AS attempt, COALESCE(failures, ($3::int[])[1]) AS failures, " +
			"COALESCE(rework, ($4::int[])[1]) AS rework",
	} {
		if got := ExpandColumns(mark); got != want {
			t.Errorf("%s becomes %q, want %q", mark, got, want)
		}
	}
}
