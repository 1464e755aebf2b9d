package engine_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// Existing opens a database that Pawl has used, and creates nothing anywhere else.
func TestExistingCreatesNothing(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			e, err := engine.OpenWith(t.Context(), p.URL, engine.Options{Schema: p.Schema, Existing: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			url, schema := p.URL, "pawl_test_mistyped"
			if which == pawltest.SQLite {
				url, schema = "sqlite:"+filepath.Join(t.TempDir(), "mistyped?.db"), ""
			}
			if _, err := engine.OpenWith(t.Context(), url, engine.Options{Schema: schema, Existing: true}); pawl.CodeOf(err) != pawl.CodeNotFound {
				t.Errorf("a database where Pawl never was: %v", err)
			}
			m, done, err := engine.Schema(t.Context(), url, engine.Options{Schema: schema, Existing: which == pawltest.Postgres})
			if err != nil {
				t.Fatal(err)
			}
			defer done()
			if err := store.Exists(t.Context(), m); pawl.CodeOf(err) != pawl.CodeNotFound {
				t.Errorf("it has a schema now: %v", err)
			}
		})
	}
}

// A file without content is no Pawl database, and stays as it is.
func TestExistingLeavesAnEmptyFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "empty.db")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := engine.OpenWith(t.Context(), "sqlite:"+file, engine.Options{Existing: true}); pawl.CodeOf(err) != pawl.CodeNotFound {
		t.Errorf("an empty file: %v", err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Size() != 0 {
		t.Errorf("it was changed: %v, %v", info, err)
	}
	if _, err := os.Stat(file + "-wal"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it has a log: %v", err)
	}
}
