// Package db has the commands of a database as a whole: migrate, sweep, archive,
// backup, doctor, stats, provenance, verify and bench.
package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/terminal"
	"github.com/pawl-work/pawl/store"
)

// MigrateCommand returns the command `pawl migrate`.
func MigrateCommand(a *cli.App) *cobra.Command {
	return cli.Noun(
		"migrate",
		"The database's schema",
		a.Verb("status", "List the migrations, run or not", cobra.NoArgs, schema(a, false, func(ctx context.Context, m store.Migrator) error {
			list, err := m.Status(ctx)
			return showMigrations(a, list, err)
		})),
		a.Verb(
			"up",
			"Run the missing migrations; concurrent calls run them once",
			cobra.NoArgs,
			schema(a, true, func(ctx context.Context, m store.Migrator) error {
				done, err := m.Up(ctx)
				return showMigrations(a, done, err)
			}),
		),
		a.Verb(
			"verify",
			"Check that this program can run on the schema; exit 1 if not",
			cobra.NoArgs,
			schema(a, false, func(ctx context.Context, m store.Migrator) error { return verifySchema(ctx, a, m) }),
		),
		migrateSQL(a),
	)
}

// schema opens the database only for its migrations; only `up` creates a missing one.
func schema(a *cli.App, creates bool, run func(context.Context, store.Migrator) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		if a.Config.Server != "" {
			return cli.Invalid("migrations need the database: use --db instead of --server")
		}
		o := a.EngineOptions()
		o.Existing = !creates
		m, done, err := engine.Schema(cmd.Context(), a.Config.DB, o)
		if err != nil {
			return err
		}
		defer done()
		return run(cmd.Context(), m)
	}
}

func showMigrations(a *cli.App, list []store.Migration, err error) error {
	if err != nil {
		return err
	}
	if list == nil {
		list = []store.Migration{}
	}
	return a.Show(pawl.List[store.Migration]{Items: list}, func(w io.Writer) {
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
			rows[i] = terminal.Row(m.ID, m.Description, at, known)
		}
		terminal.Table(w, "ID\tDESCRIPTION\tEXECUTED\tNOTE", rows)
	})
}

func verifySchema(ctx context.Context, a *cli.App, m store.Migrator) error {
	err := store.Verify(ctx, m)
	var e *pawl.Error
	if errors.As(err, &e) && e.Op == "migrate" {
		a.PrintError(e)
		return cli.ErrCheck
	}
	if err == nil {
		return a.Show(map[string]bool{"ok": true}, func(w io.Writer) { fmt.Fprintln(w, "the schema fits this program") })
	}
	return err
}

func migrateSQL(a *cli.App) *cobra.Command {
	var dialect string
	var from int64
	cmd := a.Verb(
		"sql",
		"Print the SQL that up would run, for databases that are managed elsewhere",
		cobra.NoArgs,
		func(*cobra.Command, []string) error {
			switch local := strings.HasPrefix(a.Config.DB, "sqlite:"); {
			case local && (dialect == "" || dialect == "sqlite"):
				dialect = a.Config.DB // with its prefix
			case dialect == "":
				dialect = "postgres"
			}
			text, err := engine.SchemaScript(dialect, a.Config.Schema, from)
			if err != nil {
				return err
			}
			return a.Show(map[string]string{"sql": text}, func(w io.Writer) { fmt.Fprint(w, text) })
		},
	)
	cmd.Flags().StringVar(&dialect, "dialect", "", "sqlite or postgres (default that of --db)")
	cmd.Flags().Int64Var(&from, "from", 0, "only migrations after this number")
	return cmd
}
