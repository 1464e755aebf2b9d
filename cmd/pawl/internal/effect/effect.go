// Package effect has the commands of `pawl effect`.
package effect

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("effect", "Effects: calls to the outside, and whether they happened", effectList(a), effectGet(a), effectApprove(a),
		effectReject(a), effectResolve(a), effectReceipt(a), effectVerify(a))
}

const head = "ID\tSTATE\tNAME\tITEM\tATTEMPT\tSENT\tCREATED\tNOTE"

func row(f pawl.EffectRecord) string {
	note := f.Outcome
	switch {
	case f.Contradicts:
		note = "a late report contradicts"
	case f.State == pawl.EffectWaiting:
		note = "to approve"
	case f.Error != nil && note == "":
		note = f.Error.Message
	}
	return terminal.Row(f.ID, f.State, f.Name, f.ItemID, f.Attempt, f.Sendings, f.CreatedAt.Format("2006-01-02 15:04:05"), note)
}

func show(a *cli.App, f pawl.EffectRecord, err error) error {
	if err != nil {
		return err
	}
	return a.Show(f, func(w io.Writer) { terminal.Table(w, head, []string{row(f)}) })
}

func effectList(a *cli.App) *cobra.Command {
	var pages cli.Pages
	var states []string
	var f pawl.EffectFilter
	list := func(ctx context.Context, s pawl.EffectReader, _ []string) error {
		for _, state := range states {
			f.States = append(f.States, pawl.EffectState(state))
		}
		return cli.List(ctx, a, pages, head, row, func(ctx context.Context, p pawl.Page) (pawl.List[pawl.EffectRecord], error) {
			f.Page = p
			return s.ListEffects(ctx, f)
		})
	}
	cmd := a.Verb("ls", "List effects, newest first", cobra.NoArgs, cli.With(a, list))
	cmd.Flags().StringSliceVar(&states, "state", nil, "in any of these states: unknown, waiting, open, done, failed")
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.ItemID, "item", "", "of this item")
	cmd.Flags().StringVar(&f.Name, "name", "", "of this name")
	cmd.Flags().StringVar(&f.Key, "effect-key", "", "with this key; in forks and clones with --item or --task")
	pages.Flags(cmd)
	return cmd
}

func effectGet(a *cli.App) *cobra.Command {
	get := func(ctx context.Context, s pawl.EffectReader, args []string) error {
		f, err := s.GetEffect(ctx, args[0])
		return show(a, f, err)
	}
	return a.Verb("get EFFECT", "Print an effect", cobra.ExactArgs(1), cli.With(a, get))
}

func effectApprove(a *cli.App) *cobra.Command {
	var d pawl.EffectDecision
	approve := func(ctx context.Context, s pawl.EffectDecider, args []string) error {
		f, err := s.ApproveEffect(a.ByUser(ctx), args[0], d)
		return show(a, f, err)
	}
	cmd := a.Verb("approve EFFECT", "Let an effect be sent that waits for it", cobra.ExactArgs(1), cli.With(a, approve))
	cmd.Flags().StringVar(&d.Comment, "comment", "", "why")
	return cmd
}

func effectReject(a *cli.App) *cobra.Command {
	var d pawl.EffectDecision
	reject := func(ctx context.Context, s pawl.EffectDecider, args []string) error {
		f, err := s.RejectEffect(a.ByUser(ctx), args[0], d)
		return show(a, f, err)
	}
	cmd := a.Verb("reject EFFECT", "Refuse an effect that waits to be sent, for good", cobra.ExactArgs(1), cli.With(a, reject))
	cmd.Flags().StringVar(&d.Comment, "comment", "", "why")
	return cmd
}

func effectResolve(a *cli.App) *cobra.Command {
	var c pawl.ResolveEffectCall
	var answer string
	resolve := func(ctx context.Context, s pawl.EffectDecider, args []string) (err error) {
		if c.Answer, err = a.JsonArg("answer", answer); err != nil {
			return err
		}
		f, err := s.ResolveEffect(a.ByUser(ctx), args[0], c)
		return show(a, f, err)
	}
	cmd := a.Verb("resolve EFFECT", "Decide about an unknown effect", cobra.ExactArgs(1), cli.With(a, resolve))
	cmd.Flags().StringVar(&c.Outcome, "outcome", "", "happened, did_not_happen or give_up")
	cmd.Flags().StringVar(&answer, "answer", "", "with happened: the answer: JSON, @FILE or - for stdin")
	cmd.Flags().StringVar(&c.Comment, "comment", "", "why")
	return cmd
}
