// Package key has the commands of `pawl key`.
package key

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Manager creates and revokes API keys; the engine implements it. It needs access to
// the database: servers do not offer it.
type Manager interface {
	CreateAPIKey(ctx context.Context, n pawl.NewAPIKey) (key pawl.APIKey, token string, err error)
	ListAPIKeys(ctx context.Context) ([]pawl.APIKey, error)
	RevokeAPIKey(ctx context.Context, id string) (pawl.APIKey, error)
}

// NeedsDatabase is the error for a service that cannot manage API keys.
func NeedsDatabase() error {
	return cli.Invalid("API keys are managed in the database: use --db instead of --server")
}

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("key", "API keys: which calls they may make, in which namespace",
		keyCreate(a), keyBootstrap(a), keyList(a), keyRevoke(a))
}

// withManager is With for commands that manage keys.
func withManager(a *cli.App, run func(ctx context.Context, m Manager, args []string) error) func(*cobra.Command, []string) error {
	return cli.WithAny(a, func(ctx context.Context, s any, args []string) error {
		m, ok := s.(Manager)
		if !ok {
			return NeedsDatabase()
		}
		return run(ctx, m, args)
	})
}

// newKey is a key with its token, which is shown only once.
type newKey struct {
	pawl.APIKey
	Token string `json:"token"`
}

func createKey(ctx context.Context, a *cli.App, m Manager, n pawl.NewAPIKey) error {
	key, token, err := m.CreateAPIKey(ctx, n)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.Stderr, "the token is shown only once: store it now")
	return a.Show(newKey{key, token}, func(w io.Writer) {
		keyFields(w, key)
		terminal.Fields(w, "token", token)
	})
}

func keyCreate(a *cli.App) *cobra.Command {
	var n pawl.NewAPIKey
	var expires, actor string
	cmd := a.Verb(
		"create --role ROLE",
		"Create a key; its token is shown once",
		cobra.NoArgs,
		withManager(a, func(ctx context.Context, m Manager, _ []string) (err error) {
			if n.Expires, err = days(expires); err != nil {
				return err
			}
			n.Namespace = pawl.CallerOf(ctx).Namespace // --namespace is a global flag
			if actor != "" {
				n.ActorType, n.ActorID, err = pawl.ParseActor(actor)
				if err != nil || n.ActorType == "" || n.ActorID == "" {
					return cli.Invalid("--as must be TYPE/ID, for example agent/summarizer; an id has no slash")
				}
			}
			if n.Name == "" {
				n.Name = strings.Join(n.Roles, "-")
			}
			return createKey(ctx, a, m, n)
		}),
	)
	f := cmd.Flags()
	f.StringSliceVar(&n.Roles, "role", nil, "roles of the key: "+strings.Join(pawl.KeyRoles, ", ")+"; separate several with commas")
	f.StringVar(&n.Name, "name", "", "name of the key's owner (default: its roles)")
	f.StringVar(&expires, "expires", "", "how long the key is valid, for example 90d or 12h; 0 = for ever (default 0)")
	f.StringVar(&actor, "as", "", "the actor in events, TYPE/ID (default api/NAME)")
	f.BoolVar(&n.Payloads, "payloads", false, "the key may read payloads, whatever its roles are")
	f.IntVar(&n.Rate, "rate", 0, "calls per second (default: the server's limit)")
	_ = cmd.MarkFlagRequired("role")
	return cmd
}

func keyBootstrap(a *cli.App) *cobra.Command {
	ifNone := false
	cmd := a.Verb(
		"bootstrap",
		"Create the first key, with every role in every namespace",
		cobra.NoArgs,
		withManager(a, func(ctx context.Context, m Manager, _ []string) error {
			keys, err := m.ListAPIKeys(ctx)
			if err != nil {
				return err
			}
			for _, k := range keys {
				if k.RevokedAt == nil && ifNone {
					return a.Show(struct{}{}, func(w io.Writer) { fmt.Fprintln(w, "There are keys already.") })
				}
				if k.RevokedAt == nil {
					return &pawl.Error{Code: pawl.CodeConflict, Op: "bootstrap", Message: "keys exist already: create more with `pawl key create`"}
				}
			}
			return createKey(
				ctx,
				a,
				m,
				pawl.NewAPIKey{Name: "bootstrap", Namespace: pawl.AnyNamespace, Roles: pawl.KeyRoles, ActorType: pawl.ActorUser},
			)
		}),
	)
	cmd.Flags().BoolVar(&ifNone, "if-none", false, "create none, and end with 0, if there are keys already")
	return cmd
}

func keyList(a *cli.App) *cobra.Command {
	return a.Verb("list", "List keys, newest first", cobra.NoArgs, withManager(a, func(ctx context.Context, m Manager, _ []string) error {
		keys, err := m.ListAPIKeys(ctx)
		if err != nil {
			return err
		}
		return a.Show(pawl.List[pawl.APIKey]{Items: keys}, func(w io.Writer) {
			rows := make([]string, len(keys))
			for i, k := range keys {
				rows[i] = terminal.Row(k.ID, k.Name, k.Namespace, strings.Join(k.Roles, ","), k.LastUsedAt, k.Refusals, k.ExpiresAt, k.RevokedAt)
			}
			terminal.Table(w, "KEY\tNAME\tNAMESPACE\tROLES\tLAST USED\tREFUSALS\tEXPIRES\tREVOKED", rows)
		})
	}))
}

func keyRevoke(a *cli.App) *cobra.Command {
	return a.Verb(
		"revoke KEY",
		"Revoke a key permanently",
		cobra.ExactArgs(1),
		withManager(a, func(ctx context.Context, m Manager, args []string) error {
			key, err := m.RevokeAPIKey(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(key, func(w io.Writer) { keyFields(w, key) })
		}),
	)
}

func keyFields(w io.Writer, k pawl.APIKey) {
	payloads := ""
	if k.Payloads {
		payloads = "yes"
	}
	rate := ""
	if k.Rate > 0 {
		rate = fmt.Sprint(k.Rate, " calls a second")
	}
	terminal.Fields(
		w,
		"key",
		k.ID,
		"name",
		terminal.Printable(k.Name),
		"namespace",
		terminal.Printable(k.Namespace),
		"roles",
		strings.Join(k.Roles, ", "),
		"payloads",
		payloads,
		"rate",
		rate,
		"acts as",
		terminal.Printable(k.ActorType+"/"+k.ActorID),
		"created",
		terminal.Time(k.CreatedAt),
		"expires",
		terminal.OptionalTime(k.ExpiresAt),
		"revoked",
		terminal.OptionalTime(k.RevokedAt),
	)
}

// days reads how long a key is valid; 0 = for ever.
func days(text string) (time.Duration, error) {
	d, err := cli.Duration(cmp.Or(text, "0"))
	if err == nil && d < 0 {
		err = cli.Invalid("--expires must not be below 0")
	}
	return d, err
}
