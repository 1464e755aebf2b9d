package postgres

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// Pawl understands the URLs of docs/hosting.md, and sends none of its own parameters to the server.
func TestHostedURLsAreUnderstood(t *testing.T) {
	raw, err := os.ReadFile("../../docs/hosting.md")
	if err != nil {
		t.Fatal(err)
	}
	urls := regexp.MustCompile("postgres://[^`' ]+").FindAllString(string(raw), -1)
	if len(urls) < 8 {
		t.Fatalf("%d URLs", len(urls))
	}
	for _, u := range urls {
		of, err := targetOf(u, Options{})
		if err != nil {
			t.Errorf("%s: %v", u, err)
			continue
		}
		if strings.Contains(u, "pool_mode=transaction") != (of.mode == modeTransaction) || strings.Contains(u, "max_conns=4") != (of.conns == 4) {
			t.Errorf("%s: mode %q, %d connections", u, of.mode, of.conns)
		}
		for name := range of.config.ConnConfig.RuntimeParams {
			if name != "application_name" {
				t.Errorf("%s sends %s", u, name)
			}
		}
	}
}

func TestURLsThatAreRefused(t *testing.T) {
	for _, params := range []string{"max_conns=1", "max_conns=many", "max_conns=-1", "max_conns=1000000", "pool_mode=statement",
		"prefix=pawl_", "listen_url=mysql%3A%2F%2Fuser%3Asecret%40h"} {
		_, err := targetOf("postgres://user:secret@h/d?"+params, Options{})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", params, err)
		}
	}
	if _, err := targetOf("postgres:", Options{Pool: "none"}); err == nil {
		t.Error("a pool of another type is taken")
	}
}
