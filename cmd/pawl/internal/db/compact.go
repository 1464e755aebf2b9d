package db

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

// CompactCommand returns the command `pawl compact`.
func CompactCommand(a *cli.App) *cobra.Command {
	return a.Verb(
		"compact",
		"Give the space of removed rows back to the file system",
		cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s any, _ []string) error {
			c, ok := s.(interface {
				Compact(ctx context.Context) (int64, error)
			})
			if !ok {
				return cli.Invalid("this needs the database: use --db instead of --server")
			}
			freed, err := c.Compact(ctx)
			if err != nil {
				return err
			}
			return a.Show(map[string]int64{"freed_bytes": freed}, func(w io.Writer) { fmt.Fprintf(w, "freed_bytes  %d\n", freed) })
		}),
	)
}
