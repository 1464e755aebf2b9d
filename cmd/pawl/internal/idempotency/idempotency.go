// Package idempotency has the commands of `pawl idempotency`.
package idempotency

import (
	"context"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("idempotency", "Idempotency keys, for side effects outside of Pawl",
		onceList(a), onceGet(a), onceBegin(a), onceRenew(a),
		onceDone(a, "complete", "Store the answer of a run", pawl.KeyKeeper.CompleteKeys),
		onceDone(a, "fail", "Store the error of a run; the next begin runs again", pawl.KeyKeeper.FailKeys))
}

func onceList(a *cli.App) *cobra.Command {
	var f pawl.KeyFilter
	var p cli.Pages
	var status *cli.Choice[string]
	cmd := a.Verb(
		"list",
		"List keys, newest first",
		cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.StatsReader, _ []string) error {
			chosen, err := status.Read()
			if err != nil {
				return err
			}
			if len(chosen) > 1 {
				return cli.Invalid("--status takes exactly one value here")
			}
			f.Status = strings.Join(chosen, "")
			line := func(k pawl.Key) string {
				return terminal.Row(k.Scope, k.Status, k.CreatedAt, k.CompletedAt, k.ExpiresAt, k.TaskID, k.ItemID)
			}
			return cli.List(
				ctx,
				a,
				p,
				"SCOPE\tSTATUS\tCREATED\tCOMPLETED\tEXPIRES\tTASK\tITEM",
				line,
				func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Key], error) {
					f.Page = page
					return s.ListKeys(ctx, f)
				},
			)
		}),
	)
	p.Flags(cmd)
	status = cli.Choose[string](cmd, "status", "pending, completed or failed", pawl.KeyStatuses)
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.ItemID, "item", "", "of this item")
	return cmd
}

func onceGet(a *cli.App) *cobra.Command {
	var scope string
	cmd := a.Verb("get KEY", "Show a key", cobra.ExactArgs(1), cli.With(a, func(ctx context.Context, s pawl.KeyKeeper, args []string) error {
		rs, err := s.GetKeys(ctx, []pawl.KeyName{{Scope: scope, Key: args[0]}})
		return cli.ShowEach(a, rs, err, showKeys)
	}))
	cmd.Flags().StringVar(&scope, "scope", "", "its scope")
	return cmd
}

func onceBegin(a *cli.App) *cobra.Command {
	var k pawl.KeyBegin
	var request string
	var ttl time.Duration
	cmd := a.Verb(
		"begin KEY --request JSON",
		"Begin a key: says whether to run, or prints the first answer",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.KeyKeeper, args []string) error {
			raw, err := a.JsonArg("request", request)
			if err != nil {
				return err
			}
			k.Key, k.TTLSeconds = args[0], forEver(ttl)
			if k.RequestHash, err = pawl.HashOf(raw); err != nil {
				return err
			}
			rs, err := s.BeginKeys(ctx, []pawl.KeyBegin{k})
			return cli.ShowEach(a, rs, err, func(w io.Writer, bs []pawl.KeyBegun) {
				for _, b := range bs {
					if b.Run {
						terminal.Fields(w, "run", "yes", "token", b.Token, "until", terminal.OptionalTime(b.Key.LockedUntil))
						continue
					}
					terminal.Fields(w, "run", "no, a first answer exists")
					showKeys(w, []pawl.Key{b.Key})
				}
			})
		}),
	)
	f := cmd.Flags()
	f.StringVar(&k.Scope, "scope", "", "its scope")
	f.StringVar(&request, "request", "null", "the request: JSON, @FILE or -; another request with the same key is refused")
	f.StringVar(&k.TaskID, "task", "", "links it to a task")
	f.StringVar(&k.ItemID, "item", "", "links it to an item")
	f.DurationVar(&ttl, "ttl", 24*time.Hour, "how long the key is kept; 0 = for ever, else at least as long as the lock")
	f.IntVar(&k.LockSeconds, "lock", 0, "seconds until another may take over (default 60)")
	return cmd
}

// forEver converts a duration to seconds for keys; a negative one means for ever.
func forEver(d time.Duration) int64 {
	if d == 0 {
		return -1
	}
	return int64(math.Ceil(d.Seconds())) // not 0, which is the default
}

func onceRenew(a *cli.App) *cobra.Command {
	var k pawl.KeyRenew
	cmd := a.Verb(
		"renew KEY --token TOKEN",
		"Extend the lock of a key while its run continues",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.KeyKeeper, args []string) error {
			k.Key = args[0]
			rs, err := s.RenewKeys(ctx, []pawl.KeyRenew{k})
			return cli.ShowEach(a, rs, err, func(w io.Writer, ks []pawl.Key) {
				for _, k := range ks {
					terminal.Fields(
						w,
						"scope",
						terminal.Printable(k.Scope),
						"key",
						terminal.Printable(k.Key),
						"status",
						k.Status,
						"until",
						terminal.OptionalTime(k.LockedUntil),
					)
				}
			})
		}),
	)
	f := cmd.Flags()
	f.StringVar(&k.Scope, "scope", "", "its scope")
	f.StringVar(&k.Token, "token", "", "the token that begin printed")
	f.IntVar(&k.LockSeconds, "lock", 0, "seconds from now until another may take over (default 60)")
	_ = cmd.MarkFlagRequired("token")
	return cmd
}

func onceDone(
	a *cli.App,
	name, short string,
	call func(pawl.KeyKeeper, context.Context, []pawl.KeyDone) ([]pawl.Result[pawl.Key], error),
) *cobra.Command {
	var k pawl.KeyDone
	var response string
	cmd := a.Verb(
		name+" KEY --token TOKEN",
		short,
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.KeyKeeper, args []string) (err error) {
			k.Key = args[0]
			if k.Response, err = a.JsonArg("response", response); err != nil {
				return err
			}
			rs, err := call(s, ctx, []pawl.KeyDone{k})
			return cli.ShowEach(a, rs, err, showKeys)
		}),
	)
	cmd.Flags().StringVar(&k.Scope, "scope", "", "its scope")
	cmd.Flags().StringVar(&k.Token, "token", "", "the token that begin printed")
	cmd.Flags().StringVar(&response, "response", "null", "JSON, @FILE or -")
	_ = cmd.MarkFlagRequired("token")
	return cmd
}

func showKeys(w io.Writer, ks []pawl.Key) {
	for _, k := range ks {
		terminal.Fields(
			w,
			"scope",
			terminal.Printable(k.Scope),
			"key",
			terminal.Printable(k.Key),
			"status",
			k.Status,
			"response",
			terminal.Clip(terminal.Printable(string(k.Response)), 200),
			"task",
			k.TaskID,
			"item",
			k.ItemID,
			"created",
			terminal.Time(k.CreatedAt),
			"completed",
			terminal.OptionalTime(k.CompletedAt),
			"expires",
			terminal.OptionalTime(k.ExpiresAt),
		)
	}
}
