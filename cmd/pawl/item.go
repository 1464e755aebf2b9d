package main

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

func (a *app) itemCmd() *cobra.Command {
	return noun("item", "A unit of work: look at it, or do it by hand",
		a.itemList(), a.itemGet(), a.itemResume(), a.itemClaim(), a.itemHeartbeat(), a.itemProgress(),
		a.itemCheckpoint(), a.itemComplete(), a.itemSubmit(), a.itemPart(), a.itemParts(), a.itemFinalize(),
		a.itemFail(), a.itemRelease(), a.itemSuspend(), a.itemRevoke())
}

func (a *app) itemList() *cobra.Command {
	var f pawl.ItemFilter
	var p pages
	var state *choice[pawl.ItemState]
	var status *choice[pawl.Status]
	cmd := a.verb("list", "List items, oldest first", cobra.NoArgs, with(a, func(ctx context.Context, s pawl.ItemReader, _ []string) (err error) {
		if f.States, err = state.read(); err != nil {
			return err
		}
		if f.Statuses, err = status.read(); err != nil {
			return err
		}
		return list(ctx, a, p, itemHeader, itemRow, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Item], error) {
			f.Page = page
			return s.ListItems(ctx, f)
		})
	}))
	p.flags(cmd)
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringSliceVarP(&f.Types, "type", "t", nil, "of these types")
	cmd.Flags().StringSliceVar(&f.IDs, "id", nil, "only these")
	state = choose[pawl.ItemState](cmd, "state", "in these states", shown(pawl.ItemStates))
	status = choose[pawl.Status](cmd, "status", "with these statuses", texts(pawl.ItemStatuses))
	cmd.Flags().StringVar(&f.WorkerID, "worker", "", "held by this worker, or last held by it")
	cmd.Flags().BoolVar(&f.Desc, "desc", false, "newest first")
	return cmd
}

func (a *app) itemGet() *cobra.Command {
	return a.verb("get ITEM", "Show an item", cobra.ExactArgs(1), with(a, func(ctx context.Context, s pawl.ItemReader, args []string) error {
		it, err := s.GetItem(ctx, args[0])
		if err != nil {
			return err
		}
		return a.show(it, func(w io.Writer) { itemFields(w, it) })
	}))
}

const itemHeader = "ITEM\tTYPE\tSTATE\tWHY\tDUE\tATTEMPT\tFAILURES\tWORKER\tLEASE UNTIL\tAGE\tTASK\tKEY"

func itemRow(it pawl.Item) string {
	return row(it.ID, it.Type, stateOf(it), why(it.BlockedBy, it.Error), due(it.BlockedBy), it.Attempt,
		fmt.Sprintf("%d/%d", it.Failures, it.MaxAttempts), it.WorkerID, it.LeaseExpiresAt, age(it.CreatedAt), it.TaskID, it.Key)
}

// stateOf is the item's state, marked while its lease has run out unswept.
func stateOf(it pawl.Item) string {
	if it.Status == pawl.StatusExpired {
		return string(it.State) + " (expired)"
	}
	return string(it.State)
}

func itemFields(w io.Writer, it pawl.Item) {
	fields(w,
		"item", it.ID,
		"task", it.TaskID,
		"namespace", it.Namespace,
		"type", printable(it.Type),
		"key", printable(it.Key),
		"state", stateOf(it),
		"status", string(it.Status),
		"blocked by", blocked(it.BlockedBy),
		"stage", printable(it.Stage),
		"progress", fmt.Sprintf("%d%%", it.Progress),
		"priority", fmt.Sprint(it.Priority),
		"attempt", fmt.Sprint(it.Attempt),
		"failures", fmt.Sprintf("%d of %d", it.Failures, it.MaxAttempts),
		"worker", printable(it.WorkerID),
		"last worker", printable(it.LastWorkerID),
		"lease until", whenever(it.LeaseExpiresAt),
		"heartbeat", whenever(it.HeartbeatAt),
		"goes on", whenever(it.RunAt),
		"error", failure(it.Error),
		"input", clip(printable(string(it.Input)), 200),
		"result", clip(printable(string(it.Result)), 200),
		"created", when(it.CreatedAt),
		"started", whenever(it.StartedAt),
		"completed", whenever(it.CompletedAt),
	)
}
