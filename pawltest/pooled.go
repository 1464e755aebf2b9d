package pawltest

import (
	"os"
	"testing"
)

// fresh returns an empty schema and the URL at which an engine opens it. A test that is skipped makes none.
func (d Database) fresh(t testing.TB, returns bool) (url string, s *schema) {
	t.Helper()
	server := Server(t)
	url = d.url(t, server)
	return url, freshSchema(t, server, returns)
}

// url returns the URL of a database at which an engine opens it. Without a pooler, a test of Pooled
// is skipped, or fails if CI=true.
func (d Database) url(t testing.TB, server string) string {
	t.Helper()
	if d != Pooled {
		return server
	}
	pooler := os.Getenv("PAWL_TEST_POOLER")
	if pooler == "" {
		const why = "PAWL_TEST_POOLER names no pooler in front of the PostgreSQL server"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	return pooler
}
