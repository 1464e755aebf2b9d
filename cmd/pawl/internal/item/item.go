// Package item has the commands of `pawl item`.
package item

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("item", "Units of work: read them, or execute them by hand",
		itemList(a), itemGet(a), itemResume(a), itemClaim(a), itemHeartbeat(a), itemProgress(a),
		itemCheckpoint(a), itemComplete(a), itemSubmit(a), itemPart(a), itemParts(a), itemFinalize(a),
		itemFail(a), itemRelease(a), itemSuspend(a), itemSpawn(a), itemRevoke(a))
}

func itemList(a *cli.App) *cobra.Command {
	var f pawl.ItemFilter
	var p cli.Pages
	var state *cli.Choice[pawl.ItemState]
	var status *cli.Choice[pawl.Status]
	cmd := a.Verb(
		"list",
		"List items, oldest first",
		cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.ItemReader, _ []string) (err error) {
			if f.States, err = state.Read(); err != nil {
				return err
			}
			if f.Statuses, err = status.Read(); err != nil {
				return err
			}
			return cli.List(ctx, a, p, itemHeader, itemRow, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Item], error) {
				f.Page = page
				return s.ListItems(ctx, f)
			})
		}),
	)
	p.Flags(cmd)
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringSliceVarP(&f.Types, "type", "t", nil, "of these types")
	cmd.Flags().StringSliceVar(&f.IDs, "id", nil, "only these")
	state = cli.Choose[pawl.ItemState](cmd, "state", "in these states", cli.ShownStates(pawl.ItemStates))
	status = cli.Choose[pawl.Status](cmd, "status", "with these statuses", cli.Strings(pawl.ItemStatuses))
	cmd.Flags().StringVar(&f.WorkerID, "worker", "", "held by this worker, or last held by it")
	cmd.Flags().StringVar(&f.Search, "search", "", "with an id or a type that begins so")
	cmd.Flags().StringVar(&f.Error, "error", "", "with this text in the last error, if it has not ended")
	cmd.Flags().StringVar(&f.Failure, "failure", "", "of this group of failures: see pawl failures")
	cmd.Flags().BoolVar(&f.Desc, "desc", false, "newest first")
	return cmd
}

func itemGet(a *cli.App) *cobra.Command {
	return a.Verb(
		"get ITEM",
		"Show an item",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.Reader, args []string) error {
			it, err := s.GetItem(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(it, func(w io.Writer) {
				itemFields(w, it)
				a.ShowBlobs(ctx, w, s, it.Input, it.Result, it.AssembledResult)
			})
		}),
	)
}

const itemHeader = "ITEM\tTYPE\tSTATE\tWHY\tDUE\tATTEMPT\tFAILURES\tWORKER\tLEASE UNTIL\tAGE\tTASK\tKEY"

func itemRow(it pawl.Item) string {
	return terminal.Row(it.ID, it.Type, stateOf(it), cli.Why(it.BlockedBy, it.Error), cli.Due(it.BlockedBy), it.Attempt,
		fmt.Sprintf("%d/%d", it.Failures, it.MaxAttempts), it.WorkerID, it.LeaseExpiresAt, terminal.Age(it.CreatedAt), it.TaskID, it.Key)
}

// stateOf returns the item's state, marked if its lease has run out and is not swept
// yet.
func stateOf(it pawl.Item) string {
	if it.Status == pawl.StatusExpired {
		return string(it.State) + " (expired)"
	}
	return string(it.State)
}

func itemFields(w io.Writer, it pawl.Item) {
	terminal.Fields(w,
		"item", it.ID,
		"task", it.TaskID,
		"namespace", it.Namespace,
		"type", terminal.Printable(it.Type),
		"key", terminal.Printable(it.Key),
		"state", stateOf(it),
		"status", string(it.Status),
		"blocked by", cli.Blocked(it.BlockedBy),
		"stage", terminal.Printable(it.Stage),
		"progress", fmt.Sprintf("%d%%", it.Progress),
		"priority", fmt.Sprint(it.Priority),
		"attempt", fmt.Sprint(it.Attempt),
		"failures", fmt.Sprintf("%d of %d", it.Failures, it.MaxAttempts),
		"worker", terminal.Printable(it.WorkerID),
		"last worker", terminal.Printable(it.LastWorkerID),
		"lease until", terminal.OptionalTime(it.LeaseExpiresAt),
		"heartbeat", terminal.OptionalTime(it.HeartbeatAt),
		"goes on", terminal.OptionalTime(it.RunAt),
		"error", terminal.Failure(it.Error),
		"input", terminal.Clip(terminal.Printable(string(it.Input)), 200),
		"result", terminal.Clip(terminal.Printable(string(it.Result)), 200),
		"created", terminal.Time(it.CreatedAt),
		"started", terminal.OptionalTime(it.StartedAt),
		"completed", terminal.OptionalTime(it.CompletedAt),
	)
}
