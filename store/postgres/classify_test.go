package postgres

import (
	"errors"
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
