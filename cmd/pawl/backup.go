package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// backer copies an open database: the engine over SQLite.
type backer interface {
	Backup(ctx context.Context, file string) error
}

func (a *app) backupCmd() *cobra.Command {
	return a.verb("backup FILE", "Copy the SQLite database, as of one moment, while work goes on", cobra.ExactArgs(1), with(a, a.backup))
}

func (a *app) backup(ctx context.Context, s any, args []string) error {
	b, ok := s.(backer)
	if !ok {
		return invalid("a backup is made where the database is, not through a --server")
	}
	if err := b.Backup(ctx, args[0]); err != nil {
		return err
	}
	return a.show(map[string]string{"file": args[0]}, func(w io.Writer) { fmt.Fprintln(w, args[0]) })
}
