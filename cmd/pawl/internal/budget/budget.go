// Package budget has the commands of `pawl budget`.
package budget

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	noun := cli.Noun("budget", "Budgets: what may be spent, of any unit", budgetSet(a), budgetList(a), budgetGet(a), budgetDelete(a),
		budgetReserve(a), budgetSettle(a), budgetSpent(a))
	return cli.Named(a, noun, func(ctx context.Context, s pawl.BudgetReader) ([]string, error) {
		l, err := s.ListBudgets(ctx, pawl.Page{Limit: pawl.MaxPage})
		return cli.NamesOf(l, err, func(b pawl.Budget) string { return b.Name })
	})
}

const budgetHead = "NAME\tUNIT\tLIMIT\tSPENT\tRESERVED\tREMAINING\tPERIOD\tENDS"

func budgetRow(b pawl.Budget) string {
	ends := ""
	if b.PeriodEnd != nil {
		ends = terminal.Time(*b.PeriodEnd)
	}
	return terminal.Row(b.Name, b.Unit, b.Limit, b.Spent, b.Reserved, b.Remaining, b.Period, ends)
}

func show(a *cli.App, b pawl.Budget) error {
	return a.Show(b, func(w io.Writer) { terminal.Table(w, budgetHead, []string{budgetRow(b)}) })
}

// keeper is what the command that changes a budget needs.
type keeper interface {
	pawl.BudgetKeeper
	pawl.BudgetReader
}

func budgetSet(a *cli.App) *cobra.Command {
	var given pawl.NewBudget
	var scope pawl.BudgetScope
	var cmd *cobra.Command
	set := func(ctx context.Context, s keeper, args []string) error {
		old, err := s.GetBudget(ctx, args[0])
		if err != nil && !errors.Is(err, pawl.ErrNotFound) {
			return err
		}
		b, to := old.NewBudget, pawl.BudgetScope{}
		if b.AppliesTo != nil {
			to = *b.AppliesTo
		}
		for flag, change := range map[string]func(){
			"unit":         func() { b.Unit = given.Unit },
			"limit":        func() { b.Limit = given.Limit },
			"period":       func() { b.Period = given.Period },
			"on-exhausted": func() { b.OnExhausted = given.OnExhausted },
			"on-lost":      func() { b.OnLost = given.OnLost },
			"type":         func() { to.Type = scope.Type },
			"queue-key":    func() { to.Key = scope.Key },
			"task":         func() { to.TaskID = scope.TaskID },
		} {
			if cmd.Flags().Changed(flag) {
				change()
			}
		}
		b.AppliesTo = &to
		out, err := s.PutBudget(a.ByUser(ctx), args[0], b)
		if err != nil {
			return err
		}
		return show(a, out)
	}
	cmd = a.Verb("set NAME", "Make a budget, or change what the flags say of it; items that wait for it continue", cobra.ExactArgs(1),
		cli.With(a, set))
	f := cmd.Flags()
	f.StringVar(&given.Unit, "unit", "", "the unit, for example tokens or usd_micro")
	f.Int64Var(&given.Limit, "limit", 0, "units that may be spent in each period")
	f.StringVar(&given.Period, "period", "", "day, month or none, in UTC (default none)")
	f.StringVar(&given.OnExhausted, "on-exhausted", "", "fail, suspend or ask: what workers do when it is exhausted (default fail)")
	f.StringVar(&given.OnLost, "on-lost", "", "charge or return what an attempt reserved and did not settle (default charge)")
	f.StringVar(&scope.Type, "type", "", "applies to items of this type only")
	f.StringVar(&scope.Key, "queue-key", "", "applies to items with this key of their queue only")
	f.StringVar(&scope.TaskID, "task", "", "applies to this task and its descendants only")
	return cmd
}

func budgetList(a *cli.App) *cobra.Command {
	var pages cli.Pages
	list := func(ctx context.Context, s pawl.BudgetReader, _ []string) error {
		return cli.List(ctx, a, pages, budgetHead, budgetRow, s.ListBudgets)
	}
	cmd := a.Verb("ls", "List budgets with what is left of them", cobra.NoArgs, cli.With(a, list))
	pages.Flags(cmd)
	return cmd
}

func budgetGet(a *cli.App) *cobra.Command {
	get := func(ctx context.Context, s pawl.BudgetReader, args []string) error {
		b, err := s.GetBudget(ctx, args[0])
		if err != nil {
			return err
		}
		return show(a, b)
	}
	return a.Verb("get NAME", "Print a budget", cobra.ExactArgs(1), cli.With(a, get))
}

func budgetDelete(a *cli.App) *cobra.Command {
	remove := func(ctx context.Context, s pawl.BudgetKeeper, args []string) error {
		return a.Done(s.DeleteBudget(a.ByUser(ctx), args[0]), "deleted the budget "+args[0])
	}
	return a.Verb("delete NAME", "Remove a budget and what was spent of it", cobra.ExactArgs(1), cli.With(a, remove))
}

func budgetSpent(a *cli.App) *cobra.Command {
	var f pawl.BudgetSpendingFilter
	var period string
	var all bool
	spent := func(ctx context.Context, s pawl.BudgetReader, args []string) error {
		if err := f.SetPeriod(period); err != nil {
			return err
		}
		f.All = f.All || all
		out, err := s.BudgetSpending(ctx, args[0], f)
		if err != nil {
			return err
		}
		return a.Show(out, func(w io.Writer) {
			rows := make([]string, len(out.Items))
			for i, g := range out.Items {
				name := g.Name
				if name == "" {
					name = "(not known)"
				}
				rows[i] = terminal.Row(name, g.Spent, g.Reservations)
			}
			terminal.Table(w, "NAME\tSPENT\tRESERVATIONS", rows)
			fmt.Fprintf(w, "%d %s in all\n", out.Spent, terminal.Printable(out.Unit))
		})
	}
	cmd := a.Verb("spent NAME", "Print what was spent of a budget in its period", cobra.ExactArgs(1), cli.With(a, spent))
	cmd.Flags().StringVar(&f.By, "by", "task", "task, model, agent, type, key (of the reservation) or day")
	cmd.Flags().BoolVar(&all, "all", false, "of all periods")
	cmd.Flags().StringVar(&period, "period", "current",
		"current, or a past one alone: -1 is the last one before that had a reservation, -2 the one before it")
	cmd.MarkFlagsMutuallyExclusive("all", "period")
	cmd.Flags().IntVar(&f.Limit, "limit", 0, "groups to print, those with the most, of days the newest (default 100)")
	return cmd
}
