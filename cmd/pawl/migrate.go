package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store"
)

func (a *app) migrateCmd() *cobra.Command {
	return noun("migrate", "The database's schema",
		a.verb("status", "List the migrations, run or not", cobra.NoArgs, a.schema(false, func(ctx context.Context, m store.Migrator) error {
			list, err := m.Status(ctx)
			return a.showMigrations(list, err)
		})),
		a.verb("up", "Run what is missing; many at once run it once", cobra.NoArgs, a.schema(true, func(ctx context.Context, m store.Migrator) error {
			done, err := m.Up(ctx)
			return a.showMigrations(done, err)
		})),
		a.verb("verify", "Check that this program can run on the schema; exit 1 if not", cobra.NoArgs, a.schema(false, a.verifySchema)),
		a.migrateSQL())
}

// schema opens the database for its migrations alone; only up creates one that is
// missing.
func (a *app) schema(creates bool, run func(context.Context, store.Migrator) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if a.cfg.Server != "" {
			return invalid("migrations are run on a --db, not through a --server")
		}
		o := a.engineOptions()
		o.Existing = !creates
		m, done, err := engine.Schema(cmd.Context(), a.cfg.DB, o)
		if err != nil {
			return err
		}
		defer done()
		return run(cmd.Context(), m)
	}
}

func (a *app) showMigrations(list []store.Migration, err error) error {
	if err != nil {
		return err
	}
	if list == nil {
		list = []store.Migration{}
	}
	return a.show(pawl.List[store.Migration]{Items: list}, func(w io.Writer) {
		rows := make([]string, len(list))
		for i, m := range list {
			at := time.Time{}
			if m.ExecutedAt > 0 {
				at = time.UnixMicro(m.ExecutedAt)
			}
			known := ""
			if !m.Known {
				known = "not known to this program"
			}
			rows[i] = row(m.ID, m.Description, at, known)
		}
		table(w, "ID\tDESCRIPTION\tEXECUTED\tNOTE", rows)
	})
}

func (a *app) verifySchema(ctx context.Context, m store.Migrator) error {
	err := store.Verify(ctx, m)
	var e *pawl.Error
	if errors.As(err, &e) && e.Op == "migrate" {
		a.tell(e)
		return errCheck
	}
	if err == nil {
		return a.show(map[string]bool{"ok": true}, func(w io.Writer) { fmt.Fprintln(w, "the schema is what this program needs") })
	}
	return err
}

func (a *app) migrateSQL() *cobra.Command {
	var dialect string
	var from int64
	cmd := a.verb("sql", "Print exactly what up would run, for databases that others manage", cobra.NoArgs, func(*cobra.Command, []string) error {
		if dialect == "" {
			dialect = "sqlite"
			if !strings.HasPrefix(a.cfg.DB, "sqlite:") {
				dialect = "postgres"
			}
		}
		text, err := engine.SchemaSQL(dialect, a.cfg.Schema, from)
		if err != nil {
			return err
		}
		return a.show(map[string]string{"sql": text}, func(w io.Writer) { fmt.Fprint(w, text) })
	})
	cmd.Flags().StringVar(&dialect, "dialect", "", "sqlite or postgres (default that of --db)")
	cmd.Flags().Int64Var(&from, "from", 0, "only what comes after this number")
	return cmd
}
