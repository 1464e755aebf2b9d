package main

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
)

// support is what comes with what is handed in.
type support struct{ evidence, notes string }

func (s *support) flags(f *pflag.FlagSet) {
	f.StringVar(&s.evidence, "evidence", "", "what it rests on: JSON, @FILE or -")
	f.StringVar(&s.notes, "notes", "", "for whoever decides")
}

func (a *app) itemSubmit() *cobra.Command {
	var extra support
	var result string
	cmd := fenced(a, "submit ITEM", "Hand its result in, to be accepted", func(ctx context.Context, s pawl.Deliverer, f pawl.Fence) error {
		raw, err := a.jsonArg("result", result)
		if err != nil {
			return err
		}
		evidence, err := a.jsonArg("evidence", extra.evidence)
		if err != nil {
			return err
		}
		rs, err := s.Submit(ctx, []pawl.SubmitCall{{Fence: f, Result: raw, Evidence: evidence, Notes: extra.notes}})
		return each(a, rs, err, showMoved)
	})
	cmd.Flags().StringVar(&result, "result", "", "JSON, @FILE or - for stdin (default null)")
	extra.flags(cmd.Flags())
	return cmd
}

func (a *app) itemPart() *cobra.Command {
	var extra support
	var key, payload string
	var seq int
	var draft bool
	var cmd *cobra.Command
	cmd = fenced(a, "part ITEM --key KEY", "Hand a piece of its result in", func(ctx context.Context, s pawl.Deliverer, f pawl.Fence) (err error) {
		call := pawl.PartCall{Fence: f, Key: key, Notes: extra.notes, Draft: draft}
		if cmd.Flags().Changed("seq") {
			call.Seq = &seq
		}
		if call.Payload, err = a.jsonArg("payload", payload); err != nil {
			return err
		}
		if call.Evidence, err = a.jsonArg("evidence", extra.evidence); err != nil {
			return err
		}
		rs, err := s.SubmitParts(ctx, []pawl.PartCall{call})
		return each(a, rs, err, showParts)
	})
	cmd.Flags().StringVar(&key, "part", "", "which piece: the key of its part")
	cmd.Flags().IntVar(&seq, "seq", 0, "its number, from 0, where there are several")
	cmd.Flags().StringVar(&payload, "payload", "", "JSON, @FILE or -")
	cmd.Flags().BoolVar(&draft, "draft", false, "keep it unchecked; it is not part of the result")
	extra.flags(cmd.Flags())
	return cmd
}

func (a *app) itemParts() *cobra.Command {
	var f pawl.PartFilter
	var p pages
	cmd := a.verb("parts ITEM", "List the pieces that were handed in, oldest first", cobra.ExactArgs(1), with(a, func(ctx context.Context, s pawl.RecordReader, args []string) error {
		f.ItemID = args[0]
		return list(ctx, a, p, partHeader, partRow, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.ItemPart], error) {
			f.Page = page
			return s.ListParts(ctx, f)
		})
	}))
	p.flags(cmd)
	cmd.Flags().StringVar(&f.Key, "part", "", "only those of this key")
	cmd.Flags().BoolVar(&f.All, "superseded", false, "those too that a later one took the place of")
	return cmd
}

const partHeader = "PART\tKEY\tSEQ\tSTATUS\tWORKER\tATTEMPT\tAT\tPAYLOAD"

func partRow(p pawl.ItemPart) string {
	seq := ""
	if p.Seq != nil {
		raw, _ := json.Marshal(*p.Seq) // a number always encodes
		seq = string(raw)
	}
	return row(p.ID, p.Key, seq, p.Status, p.WorkerID, p.Attempt, p.CreatedAt, string(p.Payload))
}

func showParts(w io.Writer, ps []pawl.ItemPart) {
	rows := make([]string, len(ps))
	for i, p := range ps {
		rows[i] = partRow(p)
	}
	table(w, partHeader, rows)
}

func (a *app) itemFinalize() *cobra.Command {
	var extra support
	var best bool
	cmd := fenced(a, "finalize ITEM", "Put its pieces together and submit what comes of it", func(ctx context.Context, s pawl.Deliverer, f pawl.Fence) error {
		evidence, err := a.jsonArg("evidence", extra.evidence)
		if err != nil {
			return err
		}
		call := pawl.FinalizeCall{Fence: f, Evidence: evidence, Notes: extra.notes}
		if best {
			call.Mode = pawl.FinalizeBestEffort
		}
		rs, err := s.Finalize(ctx, []pawl.FinalizeCall{call})
		return each(a, rs, err, showMoved)
	})
	cmd.Flags().BoolVar(&best, "best-effort", false, "of what is validated, though a required piece may be missing")
	extra.flags(cmd.Flags())
	return cmd
}

func (a *app) taskApprove() *cobra.Command {
	var comment string
	var version int
	var cmd *cobra.Command
	cmd = a.verb("approve TASK…", "Approve submitted tasks: they take effect, once", cobra.MinimumNArgs(1), with(a, func(ctx context.Context, s pawl.Decider, args []string) error {
		calls := make([]pawl.ApproveCall, len(args))
		for i, id := range args {
			calls[i] = pawl.ApproveCall{TaskID: id, Comment: comment}
			if cmd.Flags().Changed("version") {
				calls[i].Version = &version
			}
		}
		rs, err := s.ApproveTasks(a.byUser(ctx), calls)
		return each(a, rs, err, showTasks)
	}))
	cmd.Flags().StringVar(&comment, "comment", "", "for the record")
	cmd.Flags().IntVar(&version, "version", 0, "only if the task still has this version")
	return cmd
}

func (a *app) taskReject() *cobra.Command {
	var call pawl.RejectCall
	var errors []string
	var version int
	var cmd *cobra.Command
	cmd = a.verb("reject TASK --error CODE=MESSAGE", "Reject a submitted task, for good or for rework", cobra.ExactArgs(1), with(a, func(ctx context.Context, s pawl.Decider, args []string) error {
		call.TaskID, call.Errors = args[0], make([]pawl.Complaint, len(errors))
		for i, e := range errors {
			c := &call.Errors[i]
			code, message, _ := strings.Cut(e, "=")
			c.Code, c.Field, _ = strings.Cut(code, "@")
			c.Message = message
		}
		if cmd.Flags().Changed("version") {
			call.Version = &version
		}
		rs, err := s.RejectTasks(a.byUser(ctx), []pawl.RejectCall{call})
		return each(a, rs, err, showTasks)
	}))
	f := cmd.Flags()
	f.StringArrayVar(&errors, "error", nil, "why, once for each reason: thin=\"one page is too few\", or with the place in the result thin@/pages=\"…\"")
	f.BoolVar(&call.AllowRework, "rework", false, "send its items back, with the reasons")
	f.StringSliceVar(&call.ItemIDs, "item", nil, "rework: only these")
	f.StringVar(&call.Comment, "comment", "", "for the record")
	f.IntVar(&version, "version", 0, "only if the task still has this version")
	return cmd
}
