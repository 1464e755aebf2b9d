package db

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/terminal"
)

// logger signs and proves the transparency log; the engine implements it.
type logger interface {
	Log(ctx context.Context) error
	SignLog(ctx context.Context) (string, error)
	ForkLog(ctx context.Context) (engine.LogFork, error)
	RotateLogKey(ctx context.Context) error
}

// watchEvery is the pause between two looks for a new checkpoint.
const watchEvery = time.Second

// LogCommand returns the command `pawl log`.
func LogCommand(a *cli.App) *cobra.Command {
	return cli.Noun("log", "The transparency log of all events", logCheckpoint(a), logProof(a), logWatch(a), logFork(a), logRotate(a))
}

// logVerb is a verb that needs the database.
func logVerb(
	a *cli.App,
	use, short string,
	args cobra.PositionalArgs,
	run func(ctx context.Context, l logger, args []string) error,
) *cobra.Command {
	return a.Verb(use, short, args, cli.With(a, func(ctx context.Context, s any, args []string) error {
		l, ok := s.(logger)
		if !ok {
			return cli.Invalid("log needs the database: use --db instead of --server")
		}
		return run(ctx, l, args)
	}))
}

func logCheckpoint(a *cli.App) *cobra.Command {
	var sign bool
	cmd := a.Verb("checkpoint", "Print the newest signed checkpoint", cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.LogReader, _ []string) error {
			if l, ok := s.(logger); ok && sign {
				if err := l.Log(ctx); err != nil {
					return err
				}
				if _, err := l.SignLog(ctx); err != nil {
					return err
				}
			} else if sign {
				return cli.Invalid("--sign needs the database: use --db instead of --server")
			}
			c, err := s.LogCheckpoint(ctx)
			if err != nil {
				return err
			}
			return a.Show(c, func(w io.Writer) { fmt.Fprint(w, c.Note) })
		}))
	cmd.Flags().BoolVar(&sign, "sign", false, "first bring the log up to date and sign it")
	cmd.Example = "  pawl log checkpoint > checkpoint.txt\n  pawl verify --since checkpoint.txt"
	return cmd
}

func logProof(a *cli.App) *cobra.Command {
	var p cli.Pages
	cmd := a.Verb("proof TASK", "Print the proof of each event of a task", cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.LogReader, args []string) error {
			printed := ""
			return p.Each(func(page pawl.Page) (string, error) {
				t, err := s.ProveTask(ctx, args[0], page)
				if err != nil {
					return "", err
				}
				return t.Next, a.Show(t, func(w io.Writer) {
					if t.Checkpoint.Note != printed {
						fmt.Fprintln(w, t.Checkpoint.Note)
					}
					printed = t.Checkpoint.Note
					for _, x := range t.Proofs {
						fmt.Fprintf(w, "%s %d %s %s\n", x.EventID, x.Index, x.Leaf, strings.Join(x.Hashes, ","))
					}
					if !p.All() {
						a.More(t.Next)
					}
				})
			})
		}))
	p.Flags(cmd)
	cmd.Long = "Prints the newest checkpoint and the proofs of a page of the task's events under it, a line\n" +
		"each. With --all, the checkpoint is printed again when a page has a newer one."
	return cmd
}

func logWatch(a *cli.App) *cobra.Command {
	return a.Verb("watch", "Print each new checkpoint until it is interrupted", cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.LogReader, _ []string) error {
			last := int64(-1)
			for {
				c, err := s.LogCheckpoint(ctx)
				if err == nil && c.Size > last {
					last = c.Size
					err = a.Show(c, func(w io.Writer) { fmt.Fprintln(w, c.Note) })
				}
				if err != nil && pawl.CodeOf(err) != pawl.CodeNotFound && ctx.Err() == nil {
					return err
				}
				select {
				case <-ctx.Done():
					return nil
				case <-time.After(watchEvery):
				}
			}
		}))
}

func logFork(a *cli.App) *cobra.Command {
	cmd := logVerb(a, "fork", "Begin a new history of the log, after the database went back in time", cobra.NoArgs,
		func(ctx context.Context, l logger, _ []string) error {
			f, err := l.ForkLog(ctx)
			if err != nil {
				return err
			}
			return a.Show(f, func(w io.Writer) {
				fmt.Fprintf(w, "the log is %s now; it continues the first %d leaves; at most %d leaves are lost\n",
					terminal.Printable(f.Origin), f.Size, f.Lost)
			})
		})
	cmd.Long = "A restored database has a log that is shorter than, or different from, what was signed.\n" +
		"Nothing signs it then. A fork gives it another name and another key, and records the last\n" +
		"checkpoint and how many leaves are lost."
	return cmd
}

func logRotate(a *cli.App) *cobra.Command {
	return logVerb(a, "rotate", "Replace the signing key; the old public key stays known", cobra.NoArgs,
		func(ctx context.Context, l logger, _ []string) error {
			return a.Done(l.RotateLogKey(ctx), "replaced the signing key")
		})
}
