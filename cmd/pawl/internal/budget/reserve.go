package budget

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// claim are the flags that name a claim; in a program of `pawl worker --exec` they are read
// from the environment.
type claim struct{ pawl.Fence }

func (c *claim) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.ItemID, "item", "", "the item (default $PAWL_ITEM_ID)")
	cmd.Flags().StringVarP(&c.WorkerID, "worker", "w", "", "worker that holds the lease (default $PAWL_WORKER_ID)")
	cmd.Flags().IntVar(&c.Attempt, "attempt", 0, "the claim's attempt (default $PAWL_ATTEMPT)")
}

func (c *claim) read(a *cli.App) error {
	if c.ItemID == "" {
		c.ItemID = a.Getenv("PAWL_ITEM_ID")
	}
	if c.WorkerID == "" {
		c.WorkerID = a.Getenv("PAWL_WORKER_ID")
	}
	if c.Attempt == 0 {
		c.Attempt, _ = strconv.Atoi(a.Getenv("PAWL_ATTEMPT"))
	}
	if c.ItemID == "" || c.WorkerID == "" || c.Attempt == 0 {
		return cli.Invalid("the claim is missing: give --item ITEM --worker ID --attempt N, as printed by `pawl item claim`")
	}
	return nil
}

func amountOf(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, cli.Invalid("the amount %q is not a whole number", text)
	}
	return n, nil
}

func budgetReserve(a *cli.App) *cobra.Command {
	var of claim
	var call pawl.ReserveCall
	cmd := a.Verb("reserve NAME AMOUNT", "Reserve an amount before it is spent", cobra.ExactArgs(2),
		cli.With(a, func(ctx context.Context, s pawl.BudgetSpender, args []string) (err error) {
			if err := of.read(a); err != nil {
				return err
			}
			call.ItemID, call.WorkerID, call.Attempt = of.ItemID, of.WorkerID, of.Attempt
			if call.Amount, err = amountOf(args[1]); err != nil {
				return err
			}
			r, err := s.ReserveBudget(ctx, args[0], call)
			if err != nil {
				return err
			}
			return a.Show(r, func(w io.Writer) {
				settled := ""
				if r.Settled != nil {
					settled = fmt.Sprint(*r.Settled)
				}
				terminal.Fields(w, "reservation", r.Reservation, "amount", fmt.Sprint(r.Amount), "remaining", fmt.Sprint(r.Remaining),
					"settled", settled)
			})
		}))
	of.flags(cmd)
	cmd.Flags().StringVar(&call.Key, "reservation-key", "", "name of the reservation within the item, for retries")
	cmd.Flags().StringVar(&call.Unit, "unit", "", "unit of the amount; refused if it is not the budget's")
	cmd.Flags().StringVar(&call.AgentID, "agent", "", "agent that spends (default that of the claim's provenance, or the worker)")
	cmd.Flags().StringVar(&call.Model, "model", "", "model that is paid for (default that of the claim's provenance)")
	return cmd
}

func budgetSettle(a *cli.App) *cobra.Command {
	var of claim
	cmd := a.Verb("settle NAME RESERVATION AMOUNT", "Record what was really spent of a reservation", cobra.ExactArgs(3),
		cli.With(a, func(ctx context.Context, s pawl.BudgetSpender, args []string) error {
			if err := of.read(a); err != nil {
				return err
			}
			amount, err := amountOf(args[2])
			if err != nil {
				return err
			}
			out, err := s.SettleBudget(ctx, args[0], pawl.SettleCall{Reservation: args[1], Amount: amount, ItemID: of.ItemID,
				WorkerID: of.WorkerID, Attempt: of.Attempt})
			if err != nil {
				return err
			}
			return a.Show(out, func(w io.Writer) {
				terminal.Fields(w, "remaining", fmt.Sprint(out.Remaining), "spent", fmt.Sprint(out.Spent))
			})
		}))
	of.flags(cmd)
	return cmd
}
