package testserver

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// A server answers while it runs. After Stop no file and no listener is left.
func TestServerLeavesNothing(t *testing.T) {
	if _, err := Find(); err != nil {
		t.Skip(err.Error())
	}
	s, err := Start(t.Context(), Options{})
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
		t.Error("a connection without the password was accepted")
	}

	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", s.Dir, err)
	}
	if conn, err := pgx.Connect(t.Context(), s.URL); err == nil {
		_ = conn.Close(t.Context())
		t.Error("it still answers")
	}
}

// A durable server flushes each commit to a disk.
func TestDurableServerWaitsForItsDisk(t *testing.T) {
	if _, err := Find(); err != nil {
		t.Skip(err.Error())
	}
	s, err := Start(t.Context(), Options{Durable: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	}()
	if inMemory(s.Dir) {
		t.Errorf("%s is in memory", s.Dir)
	}
	conn, err := pgx.Connect(t.Context(), s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for name, want := range map[string]string{"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "shared_buffers": "1GB",
		"max_connections": "200"} {
		var got string
		if err := conn.QueryRow(t.Context(), "SHOW "+name).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}
