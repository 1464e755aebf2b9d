package db

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
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
