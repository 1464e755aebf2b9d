package db

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

// backuper copies an open database: the engine over SQLite.
type backuper interface {
	Backup(ctx context.Context, file string) error
	UsedBlobStores(ctx context.Context) ([]string, error)
}

// BackupCommand returns the command `pawl backup`.
func BackupCommand(a *cli.App) *cobra.Command {
	return a.Verb(
		"backup FILE",
		"Copy the SQLite database consistently while it is in use",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s any, args []string) error { return backup(ctx, a, s, args) }),
	)
}

func backup(ctx context.Context, a *cli.App, s any, args []string) error {
	b, ok := s.(backuper)
	if !ok {
		return cli.Invalid("a backup needs the database: use --db instead of --server")
	}
	if err := b.Backup(ctx, args[0]); err != nil {
		return err
	}
	stores, err := b.UsedBlobStores(ctx)
	if err != nil {
		return err
	}
	if len(stores) > 0 {
		a.Log().Warn("the backup has no bytes of blobs in stores outside of the database: back them up with it (docs/blobs.md)", "stores", stores)
	}
	return a.Show(map[string]string{"file": args[0]}, func(w io.Writer) { fmt.Fprintln(w, args[0]) })
}
