package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Every code has the exit code of the table and is printed on stderr only.
func TestExitCodesAreTheTables(t *testing.T) {
	for _, info := range pawl.Errors {
		for _, output := range []string{"table", "json"} {
			var stderr strings.Builder
			a := &cli.App{Stderr: &stderr, Running: true}
			a.Config.Output = output
			if got := a.Exit(fmt.Errorf("wrapped: %w", &pawl.Error{Code: info.Code})); got != info.Exit {
				t.Errorf("%s: exit %d, want %d", info.Code, got, info.Exit)
			}
			if !strings.Contains(stderr.String(), string(info.Code)) {
				t.Errorf("%s: stderr %q", info.Code, &stderr)
			}
		}
	}
	a := &cli.App{Stderr: io.Discard, Running: true}
	if got := a.Exit(errors.New("unheard of")); got != pawl.CodeInternal.Info().Exit {
		t.Errorf("an error of another kind: exit %d", got)
	}
	if a.Exit(nil) != 0 || a.Exit(cli.ErrCheck) != 1 {
		t.Error("done is 0, a check that failed 1")
	}
}

func TestNearest(t *testing.T) {
	known := []string{"db", "serve.addr", "namespace"}
	for word, want := range map[string]string{"dbb": "db", "serve.adr": "serve.addr", "namespcae": "namespace", "elsewhere": "", "": ""} {
		if got := nearest.Of(word, known); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{"plain ü": "plain ü", "a\tb\n": `a\tb\n`, "\x1b[31m": `\x1b[31m`,
		`say "a"` + "\x00": `say "a"\x00`} {
		if got := terminal.Printable(in); got != want {
			t.Errorf("%q: %s, want %s", in, got, want)
		}
	}
}

func TestDatabaseFromDBVariables(t *testing.T) {
	for _, c := range []struct{ name, env, db, schema string }{
		{"nothing", "", "sqlite:pawl.db", ""},
		{"no host", "DB_PORT=5 DB_NAME=d", "sqlite:pawl.db", ""},
		{"all", "DB_HOST=h DB_PORT=5 DB_USER=u DB_PASSWORD=p@/ DB_NAME=d DB_SCHEMA=s", "postgres://u:p%40%2F@h:5/d", "s"},
		{"each falls back", "API_PG_DB_HOST=h DB_PORT=5 API_PG_DB_PORT=6 API_PG_DB_USER=u API_PG_DB_NAME=d API_PG_DB_SCHEMA=s",
			"postgres://u@h:5/d", "s"},
		{"a URL", "DB_URL=postgres://u:p@h:5/d DB_SCHEMA=s", "postgres://u:p@h:5/d", "s"},
		{"its twin, before a host", "API_PG_DB_URL=postgres://h/d DB_HOST=other", "postgres://h/d", ""},
		{"other names", "API_PG_DB_HOST=h API_PG_DB_USERNAME=u API_PG_DB_PASSWORD=p API_PG_DB_DATABASE=d", "postgres://u:p@h/d", ""},
		{"both names", "DB_HOST=h DB_USER=u DB_USERNAME=v DB_NAME=d DB_DATABASE=e", "postgres://u@h/d", ""},
		{"IPv6", "DB_HOST=::1 DB_PORT=5 DB_NAME=d", "postgres://[::1]:5/d", ""},
		{"a socket", "DB_HOST=/run/postgresql DB_NAME=d", "postgres:///d?host=%2Frun%2Fpostgresql", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &cli.App{Env: strings.Fields(c.env)}
			var cfg cli.Config
			a.NameDatabase(&cfg)
			if cfg.DB != c.db || cfg.Schema != c.schema {
				t.Errorf("%s %s, want %s %s", cfg.DB, cfg.Schema, c.db, c.schema)
			}
			cfg = cli.Config{DB: "sqlite:mine.db"}
			if a.NameDatabase(&cfg); cfg.DB != "sqlite:mine.db" || cfg.Schema != "" {
				t.Errorf("a named database gave way to %s %s", cfg.DB, cfg.Schema)
			}
		})
	}
}

func TestUnusedDBVariablesAreNamed(t *testing.T) {
	for env, want := range map[string]string{
		"":                                       "",
		"DB_POOL=5":                              "", // of another program, maybe
		"DB_HOST=h DB_POOL=5":                    "DB_POOL",
		"DB_URL=postgres://h/d DB_HOST=h":        "DB_HOST",
		"API_PG_DB_TYPE=postgres":                "API_PG_DB_TYPE",
		"DB_HOST=h API_PG_DB_HOST=g DB_NAME=d":   "",
		"DB_HOST=h DB_PORT=1 DB_EMPTY= DB_USER=": "",
	} {
		a := &cli.App{Env: strings.Fields(env)}
		if got := strings.Join(a.NameDatabase(new(cli.Config)), " "); got != want {
			t.Errorf("%s: %q, want %q", env, got, want)
		}
	}
}

func TestProgramsDoNotGetSecrets(t *testing.T) {
	env := []string{"PATH=/bin", "PAWL_KEY=k", "PAWL_DB=d", "PAWL_SERVER=s", "DB_PASSWORD=p", "API_PG_DB_URL=u", "HOME=/"}
	if got := strings.Join(cli.ProgramEnv(env, []string{"PAWL_SERVER"}), " "); got != "PATH=/bin PAWL_SERVER=s HOME=/" {
		t.Errorf("programs get %s", got)
	}
}
