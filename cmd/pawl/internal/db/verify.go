package db

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/terminal"
	"github.com/pawl-work/pawl/translog"
)

// verifier compares events with the transparency log; the engine implements it.
type verifier interface {
	VerifyTask(ctx context.Context, taskID string, trust *translog.Trust) (engine.TaskVerification, error)
	VerifyLog(ctx context.Context, limit int, trust *translog.Trust) (engine.LogVerification, error)
	VerifySince(ctx context.Context, note string, trust *translog.Trust) (engine.SinceVerification, error)
}

// verifyFlags are the flags of verify.
type verifyFlags struct {
	all   bool
	since string
	trust translog.Trust
}

// VerifyCommand returns the command `pawl verify`.
func VerifyCommand(a *cli.App) *cobra.Command {
	var f verifyFlags
	cmd := a.Verb(
		"verify [TASK]",
		"Compare events with the transparency log; exit 1 if they differ",
		cobra.MaximumNArgs(1),
		func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == f.all && f.since == "" || len(args) == 1 && f.since != "" || f.all && f.since != "" {
				return cli.Invalid("verify needs a task, --all or --since FILE")
			}
			a.Config.Migrate = "off" // it looks, and changes nothing
			return cli.With(a, func(ctx context.Context, s any, args []string) error { return verify(ctx, a, s, args, f) })(cmd, args)
		},
	)
	cmd.Flags().BoolVar(&f.all, "all", false, "compare the whole log with all events")
	cmd.Flags().StringVar(&f.since, "since", "", "a file with a checkpoint that was kept elsewhere: the log must have only grown since")
	cmd.Flags().StringArrayVar(&f.trust.Keys, "verifier", nil,
		"public keys, one a line, of which one must have signed the checkpoint, in place of those beside the signing key; may be repeated")
	cli.WitnessFlags(cmd, &f.trust)
	cmd.Long = "Proves that each event of a task is in the log under a signed checkpoint. It proves\n" +
		"inclusion, not completeness: --all finds events that were removed, and names each row,\n" +
		"leaf and page that was changed. --since proves that the log continues a checkpoint."
	cmd.Example = "  pawl verify tsk_01J…\n  pawl verify --all\n  pawl verify --since checkpoint.txt"
	return cmd
}

func verify(ctx context.Context, a *cli.App, s any, args []string, f verifyFlags) error {
	v, ok := s.(verifier)
	if !ok {
		return cli.Invalid("verify needs the database: use --db instead of --server")
	}
	switch {
	case f.all:
		return verifyAll(ctx, a, v, &f.trust)
	case f.since != "":
		return verifySince(ctx, a, v, f)
	}
	t, err := v.VerifyTask(ctx, args[0], &f.trust)
	if err != nil {
		return err
	}
	return shown(t.Intact, a.Show(t, func(w io.Writer) {
		terminal.Fields(w, "events", strconv.Itoa(t.Events), "in the log", strconv.Itoa(t.Logged),
			"proved under the checkpoint", strconv.Itoa(t.Signed))
		checkpoint(w, t.Checkpoint, &f.trust)
		if d := t.Deleted; d != nil {
			terminal.Fields(w, "deleted", terminal.OptionalTime(&d.At), "by", strings.TrimSpace(d.ActorType+" "+d.ActorID), "key", d.Key,
				"events before", strconv.FormatInt(d.Tombstone.Events, 10), "last event", d.LastEvent)
		}
		if n := len(t.Unproved); n > 0 {
			unproved(w, int64(n), t.Unproved)
		}
		faults(w, t.Faults)
		if t.Intact {
			fmt.Fprintln(w, "intact: this proves that the events are in the log, not that no event is missing")
		}
	}))
}

func verifyAll(ctx context.Context, a *cli.App, v verifier, trust *translog.Trust) error {
	l, err := v.VerifyLog(ctx, -1, trust)
	if err != nil {
		return err
	}
	return shown(l.Intact, a.Show(l, func(w io.Writer) {
		terminal.Fields(w, "leaves", strconv.FormatInt(l.Size, 10), "compared", strconv.Itoa(l.Events), "pages", strconv.Itoa(l.Pages))
		checkpoint(w, l.Checkpoint, trust)
		for _, x := range l.Forks {
			fmt.Fprintf(w, "forked after leaf %d: %d leaves of the history before are lost; the log is %s since %s\n", x.Size, x.Lost,
				terminal.Printable(x.Origin), terminal.OptionalTime(&x.At))
		}
		if u := l.Unlogged; u != nil {
			fmt.Fprintf(w, "removed, which the log does not say yet: %d events: %s\n", u.Events, terminal.Printable(strings.Join(u.IDs, ", ")))
		}
		if u := l.Unproved; u != nil {
			unproved(w, u.Events, u.IDs)
		}
		faults(w, l.Faults)
		if l.Intact {
			fmt.Fprintln(w, "intact")
		}
	}))
}

func unproved(w io.Writer, n int64, ids []string) {
	fmt.Fprintf(w, "inputs and results that could not be compared, because they were removed with their task: those of %d events: %s\n", n,
		terminal.Printable(strings.Join(ids, ", ")))
}

func verifySince(ctx context.Context, a *cli.App, v verifier, f verifyFlags) error {
	note, err := os.ReadFile(f.since)
	if err != nil {
		return cli.Invalid("--since: %v", err)
	}
	x, err := v.VerifySince(ctx, string(note), &f.trust)
	if err != nil {
		return err
	}
	return shown(x.Consistent, a.Show(x, func(w io.Writer) {
		terminal.Fields(w, "checkpoint", strconv.FormatInt(x.Since, 10), "log", strconv.FormatInt(x.Size, 10))
		fmt.Fprintln(w, terminal.Printable(x.Found))
	}))
}

// shown is the result of a check that was shown.
func shown(intact bool, err error) error {
	if err == nil && !intact {
		return cli.ErrCheck
	}
	return err
}

func checkpoint(w io.Writer, c *engine.LogCheckpoint, trust *translog.Trust) {
	if c == nil {
		fmt.Fprintln(w, "no checkpoint of a known key: compared with the log alone")
		return
	}
	terminal.Fields(w, "checkpoint", strconv.FormatInt(c.Size, 10), "signed", terminal.OptionalTime(&c.SignedAt),
		"log", c.Origin, "root", c.Root)
	for _, x := range trust.Cosignatures(c.Note) {
		fmt.Fprintf(w, "cosigned by %s at %s\n", terminal.Printable(x.Witness), terminal.OptionalTime(&x.At))
	}
}

func faults(w io.Writer, list []engine.LogFault) {
	for _, f := range list {
		where := f.Kind
		if f.EventID != "" {
			where += ": " + f.EventID
		}
		if f.Position > 0 {
			where += fmt.Sprintf(" at position %d", f.Position)
		}
		fmt.Fprintf(w, "%s: %s\n", terminal.Printable(where), terminal.Printable(f.Found))
	}
}
