package item

import (
	"context"
	"encoding/json"
	"io"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

func itemSubmit(a *cli.App) *cobra.Command {
	var extra attachments
	var result string
	cmd := fenced(a, "submit ITEM", "Submit a result for acceptance", func(ctx context.Context, s pawl.Deliverer, f pawl.Fence) error {
		raw, err := a.JsonArg("result", result)
		if err != nil {
			return err
		}
		evidence, err := a.JsonArg("evidence", extra.evidence)
		if err != nil {
			return err
		}
		rs, err := s.Submit(ctx, []pawl.SubmitCall{{Fence: f, Result: raw, Evidence: evidence, Notes: extra.notes}})
		return cli.ShowEach(a, rs, err, showMoved)
	})
	cmd.Flags().StringVar(&result, "result", "", "JSON, @FILE or - for stdin (default null)")
	extra.flags(cmd.Flags())
	return cmd
}

func itemPart(a *cli.App) *cobra.Command {
	var extra attachments
	var key, payload string
	var seq int
	var draft bool
	var cmd *cobra.Command
	cmd = fenced(
		a,
		"part ITEM --part KEY",
		"Submit one part of an item's result",
		func(ctx context.Context, s pawl.Deliverer, f pawl.Fence) (err error) {
			call := pawl.PartCall{Fence: f, Key: key, Notes: extra.notes, Draft: draft}
			if cmd.Flags().Changed("seq") {
				call.Seq = &seq
			}
			if call.Payload, err = a.JsonArg("payload", payload); err != nil {
				return err
			}
			if call.Evidence, err = a.JsonArg("evidence", extra.evidence); err != nil {
				return err
			}
			rs, err := s.SubmitParts(ctx, []pawl.PartCall{call})
			return cli.ShowEach(a, rs, err, showParts)
		},
	)
	cmd.Flags().StringVar(&key, "part", "", "key of the part")
	cmd.Flags().IntVar(&seq, "seq", 0, "number of a repeatable part, from 0")
	cmd.Flags().StringVar(&payload, "payload", "", "JSON, @FILE or -")
	cmd.Flags().BoolVar(&draft, "draft", false, "store it unchecked, as a draft that is not used for the result")
	extra.flags(cmd.Flags())
	return cmd
}

func itemParts(a *cli.App) *cobra.Command {
	var f pawl.PartFilter
	var p cli.Pages
	cmd := a.Verb(
		"parts ITEM",
		"List the submitted parts of an item, oldest first",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.RecordReader, args []string) error {
			f.ItemID = args[0]
			return cli.List(ctx, a, p, partHeader, partRow, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.ItemPart], error) {
				f.Page = page
				return s.ListParts(ctx, f)
			})
		}),
	)
	p.Flags(cmd)
	cmd.Flags().StringVar(&f.Key, "part", "", "only parts of this key")
	cmd.Flags().BoolVar(&f.All, "superseded", false, "also parts that a later one replaced")
	return cmd
}

func itemFinalize(a *cli.App) *cobra.Command {
	var extra attachments
	var best bool
	cmd := fenced(
		a,
		"finalize ITEM",
		"Assemble the parts of an item and submit the result",
		func(ctx context.Context, s pawl.Deliverer, f pawl.Fence) error {
			evidence, err := a.JsonArg("evidence", extra.evidence)
			if err != nil {
				return err
			}
			call := pawl.FinalizeCall{Fence: f, Evidence: evidence, Notes: extra.notes}
			if best {
				call.Mode = pawl.FinalizeBestEffort
			}
			rs, err := s.Finalize(ctx, []pawl.FinalizeCall{call})
			return cli.ShowEach(a, rs, err, showMoved)
		},
	)
	cmd.Flags().BoolVar(&best, "best-effort", false, "use the validated parts, even if a required part is missing")
	extra.flags(cmd.Flags())
	return cmd
}

// attachments are the flags for what accompanies a result.
type attachments struct{ evidence, notes string }

func (s *attachments) flags(f *pflag.FlagSet) {
	f.StringVar(&s.evidence, "evidence", "", "evidence for the result: JSON, @FILE or -")
	f.StringVar(&s.notes, "notes", "", "for the approver")
}

const partHeader = "PART\tKEY\tSEQ\tSTATUS\tWORKER\tATTEMPT\tAT\tPAYLOAD"

func partRow(p pawl.ItemPart) string {
	seq := ""
	if p.Seq != nil {
		raw, _ := json.Marshal(*p.Seq) // a number always encodes
		seq = string(raw)
	}
	return terminal.Row(p.ID, p.Key, seq, p.Status, p.WorkerID, p.Attempt, p.CreatedAt, string(p.Payload))
}

func showParts(w io.Writer, ps []pawl.ItemPart) {
	rows := make([]string, len(ps))
	for i, p := range ps {
		rows[i] = partRow(p)
	}
	terminal.Table(w, partHeader, rows)
}
