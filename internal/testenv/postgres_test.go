package main

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A server answers as long as it runs, and when it is stopped nothing of it is
// left: no file, no listener.
func TestServerLeavesNothing(t *testing.T) {
	if _, err := findServer(); err != nil {
		t.Skip(err.Error())
	}
	s, err := StartServer(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close(t.Context())

	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User("postgres")
	if conn, err := pgx.Connect(t.Context(), u.String()); err == nil {
		_ = conn.Close(t.Context())
		t.Error("whoever is on this machine gets in without the password")
	}

	s.Stop()
	if _, err := os.Stat(s.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", s.Dir, err)
	}
	if conn, err := pgx.Connect(t.Context(), s.URL); err == nil {
		_ = conn.Close(t.Context())
		t.Error("it still answers")
	}
}
