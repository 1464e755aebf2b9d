package db

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/terminal"
)

// ProvenanceCommand returns the command `pawl provenance`.
func ProvenanceCommand(a *cli.App) *cobra.Command {
	var p cli.Pages
	cmd := a.Verb(
		"provenance TASK",
		"Show which caller did what to a task, and with which evidence",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.RecordReader, args []string) error {
			f := pawl.ProvenanceFilter{TaskID: args[0]}
			if strings.HasPrefix(args[0], "itm_") {
				f = pawl.ProvenanceFilter{ItemID: args[0]}
			}
			return cli.List(
				ctx,
				a,
				p,
				"TIME\tVERB\tITEM\tATTEMPT\tAGENT\tNAME\tVERSION\tMODEL\tKEY\tEVENT\tEVIDENCE",
				provenanceRow,
				func(ctx context.Context, page pawl.Page) (pawl.List[pawl.ProvenanceRecord], error) {
					f.Page = page
					return s.ListProvenance(ctx, f)
				},
			)
		}),
	)
	p.Flags(cmd)
	cmd.Long = "Shows which caller did what to a task or item, oldest first: what callers stated about\n" +
		"themselves, with the evidence and notes of their results."
	cmd.Example = "  pawl provenance tsk_01J… -o json"
	return cmd
}

func provenanceRow(r pawl.ProvenanceRecord) string {
	attempt := ""
	if r.Attempt > 0 {
		attempt = strconv.Itoa(r.Attempt)
	}
	return terminal.Row(
		r.CreatedAt,
		r.Verb,
		r.ItemID,
		attempt,
		r.AgentID,
		r.AgentName,
		r.AgentVersion,
		r.Model,
		r.IdempotencyKey,
		r.EventID,
		evidence(r.Data),
	)
}

// evidence returns what an event's data says for a decision: evidence and notes, or the
// errors of a rejection.
func evidence(data json.RawMessage) string {
	var said struct {
		Evidence json.RawMessage  `json:"evidence"`
		Notes    string           `json:"notes"`
		Errors   []pawl.Complaint `json:"errors"`
	}
	_ = json.Unmarshal(data, &said) // other events have other data
	out := string(said.Evidence)
	for _, e := range said.Errors {
		out = strings.TrimSpace(out + " " + e.Code + ": " + e.Message)
	}
	return strings.TrimSpace(out + " " + said.Notes)
}

// verifier verifies the hash chains of tasks; the engine implements it.
type verifier interface {
	VerifyTask(ctx context.Context, taskID, head string) (engine.Chain, error)
}

// VerifyCommand returns the command `pawl verify`.
func VerifyCommand(a *cli.App) *cobra.Command {
	var head string
	cmd := a.Verb(
		"verify TASK",
		"Check a task's events against its hash chain; exit 1 if they differ",
		cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string) error {
			a.Config.Migrate = "off" // it looks, and changes nothing
			return cli.With(a, func(ctx context.Context, s any, args []string) error { return verify(ctx, a, s, args[0], head) })(cmd, args)
		},
	)
	cmd.Flags().StringVar(&head, "head", "", "a chain head that was printed before and kept elsewhere; it must be in the chain")
	cmd.Long = "Computes the chain of a task's events again and names the first event that differs\n" +
		"from what was sealed: changed, missing, inserted or reordered. A program that can write\n" +
		"to the database can rewrite the whole chain, unless a head is kept elsewhere (--head)."
	cmd.Example = "  pawl verify tsk_01J…\n  pawl verify tsk_01J… --head m0Zt…"
	return cmd
}

func verify(ctx context.Context, a *cli.App, s any, taskID, head string) error {
	v, ok := s.(verifier)
	if !ok {
		return cli.Invalid("verify needs the database: use --db instead of --server")
	}
	c, err := v.VerifyTask(ctx, taskID, head)
	if err != nil {
		return err
	}
	err = a.Show(c, func(w io.Writer) {
		terminal.Fields(
			w,
			"events",
			strconv.Itoa(c.Events),
			"sealed to",
			strconv.FormatInt(c.Sealed, 10),
			"sealed at",
			terminal.OptionalTime(c.SealedAt),
			"head",
			c.Head,
		)
		if d := c.Deleted; d != nil {
			terminal.Fields(
				w,
				"deleted",
				terminal.OptionalTime(&d.At),
				"by",
				strings.TrimSpace(d.ActorType+" "+d.ActorID),
				"key",
				d.Key,
				"events",
				strconv.FormatInt(d.Tombstone.Events, 10),
				"last event",
				d.LastEvent,
				"hash",
				d.Hash,
			)
		}
		if c.Break != nil {
			where := c.Break.Kind
			if c.Break.EventID != "" { // damaged seals and a missing head are at no event
				where += ": " + c.Break.EventID
			}
			fmt.Fprintf(w, "%s: %s\n", where, c.Break.Found)
			return
		}
		fmt.Fprintln(w, "intact")
	})
	if err == nil && !c.Intact {
		return cli.ErrCheck
	}
	return err
}
