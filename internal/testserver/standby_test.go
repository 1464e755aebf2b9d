package testserver

import (
	"testing"

	"github.com/jackc/pgx/v5"
)

// A standby has its primary's rows. After a promotion it accepts writes on another
// timeline, though the primary is frozen.
func TestStandbyIsPromoted(t *testing.T) {
	if _, err := Find(); err != nil {
		t.Skip(err.Error())
	}
	primary, err := Start(t.Context(), Options{Replicated: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = primary.Stop() })
	c, err := pgx.Connect(t.Context(), primary.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Exec(t.Context(), "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1)"); err != nil {
		t.Fatal(err)
	}
	standby, err := primary.Standby(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = standby.Stop() })
	if _, err := c.Exec(t.Context(), "INSERT INTO kept VALUES (2)"); err != nil {
		t.Fatal(err)
	}
	if err := standby.CatchUp(t.Context(), primary); err != nil {
		t.Fatal(err)
	}
	if err := primary.Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := standby.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	s, err := pgx.Connect(t.Context(), standby.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close(t.Context())
	var rows int
	var file string
	if _, err := s.Exec(t.Context(), "INSERT INTO kept VALUES (3)"); err != nil {
		t.Fatal(err)
	}
	if err := s.QueryRow(t.Context(), "SELECT count(*), pg_walfile_name(pg_current_wal_lsn()) FROM kept").Scan(&rows, &file); err != nil {
		t.Fatal(err)
	}
	if rows != 3 || file[:8] != "00000002" {
		t.Errorf("%d rows, in %s", rows, file)
	}
}
