package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// A transaction that PostgreSQL rolls back for others can run again, and no other.
func TestRolledBackForOthers(t *testing.T) {
	for code, want := range map[string]bool{deadlock: true, serialization: true, lockTimeout: false, "23505": false, "57P01": false} {
		err := classify(&pgconn.PgError{Code: code})
		if got := errors.Is(err, store.ErrRolledBack); got != want {
			t.Errorf("%s: %t, want %t", code, got, want)
		}
		if want && !errors.Is(err, pawl.ErrUnavailable) {
			t.Errorf("%s: %v", code, err)
		}
	}
}

// A server in recovery refuses BEGIN READ WRITE with 0A000 and a change with 25006. Both are errors
// of the whole database, unlike a lock or a statement that took too long. An unknown SQLSTATE is
// internal; a log has its text.
func TestErrorsOfTheWholeDatabase(t *testing.T) {
	for code, want := range map[string]bool{unsupported: true, readOnly: true, "53300": true, "53100": true, "57P01": true, "57P03": true,
		"08006": true, "28P01": true, "55000": true, lockTimeout: false, canceled: false, deadlock: false, "25P03": false} {
		err := classify(&pgconn.PgError{Code: code})
		if !errors.Is(err, pawl.ErrUnavailable) || store.IsDown(err) != want || !store.OfDatabase(err) {
			t.Errorf("%s: %v, of the whole database: %t, want %t", code, err, store.IsDown(err), want)
		}
	}
	var e *pawl.Error
	if err := classify(&pgconn.PgError{Code: "XX999", Message: "what went wrong"}); !errors.As(err, &e) || e.Code != pawl.CodeInternal ||
		store.IsDown(err) || strings.Contains(err.Error(), "what went wrong") || !strings.Contains(e.LogValue().String(), "XX999") ||
		!strings.Contains(e.LogValue().String(), "what went wrong") {
		t.Errorf("%v; in a log: %v", err, e.LogValue())
	}
}
