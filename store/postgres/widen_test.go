package postgres

import (
	"strings"
	"testing"
)

// An INSERT of one row becomes one of several, if no row can be in another's way.
func TestWidened(t *testing.T) {
	text := "INSERT INTO a (b, c)\nVALUES (COALESCE($2, (SELECT n FROM x WHERE y = $1)), $3)\nON CONFLICT DO NOTHING"
	wide, rows := widened(text, 15)
	want := "INSERT INTO a (b, c)\nVALUES (COALESCE($2, (SELECT n FROM x WHERE y = $1)), $3), " +
		"(COALESCE($5, (SELECT n FROM x WHERE y = $4)), $6), "
	if rows != 8 || !strings.HasPrefix(wide, want) || !strings.HasSuffix(wide, "$24)\nON CONFLICT DO NOTHING") {
		t.Errorf("%d rows: %s", rows, wide)
	}
	if wide, rows = widened(text, 1000); rows != 64 || strings.Count(wide, "COALESCE") != 64 {
		t.Errorf("%d rows: %s", rows, wide)
	}
	for _, text := range []string{
		"UPDATE a SET b = $2 WHERE c = $1",
		"INSERT INTO a (b) SELECT $1",
		"INSERT INTO a (b) VALUES ($1) ON CONFLICT (b) DO UPDATE SET c = 1",
		"INSERT INTO a (b) VALUES ($1) RETURNING $2",
		"WITH x AS (SELECT $1) INSERT INTO a (b) VALUES ($2)",
	} {
		if got, rows := widened(text, 100); got != text || rows != 1 {
			t.Errorf("%d rows: %s", rows, got)
		}
	}
}
