package item

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/cmd/pawl/internal/task"
)

func itemSpawn(a *cli.App) *cobra.Command {
	var key, child string
	cmd := fenced(
		a,
		"spawn ITEM --child-key KEY --task JSON",
		"Create a child of an item's task, once for each key",
		func(ctx context.Context, s pawl.Spawner, f pawl.Fence) error {
			raw, err := a.JsonArg("task", child)
			if err != nil {
				return err
			}
			call := pawl.SpawnCall{Fence: f, Key: key}
			if err := cli.ReadJSON("--task is no task", raw, &call.Task); err != nil {
				return err
			}
			rs, err := s.Spawn(ctx, []pawl.SpawnCall{call})
			return cli.ShowEach(a, rs, err, func(w io.Writer, ts []pawl.Task) { task.ShowTask(w, ts[0]) })
		},
	)
	cmd.Flags().StringVar(&key, "child-key", "", "unique among the children of the task: the same key is the same child")
	cmd.Flags().StringVar(&child, "task", "", `the child, as in POST /v1/tasks: {"type": …}, @FILE or - for stdin`)
	_ = cmd.MarkFlagRequired("child-key")
	_ = cmd.MarkFlagRequired("task")
	return cmd
}

func itemSuspend(a *cli.App) *cobra.Command {
	var until, signal, key, need, onFailure string
	var children []string
	cmd := fenced(
		a,
		"suspend ITEM --until TIME",
		"Suspend an item until a time, a signal or the end of children",
		func(ctx context.Context, s pawl.Leaser, f pawl.Fence) error {
			at, err := cli.FutureTime("until", until)
			if err != nil {
				return err
			}
			call := pawl.SuspendCall{Fence: f, Until: at, Signal: signal, Key: key}
			if len(children) > 0 || need != "" || onFailure != "" {
				call.Children = &pawl.ChildWait{IDs: children, OnFailure: onFailure}
				if err := readNeed(&call.Children.Need, need); err != nil {
					return err
				}
			}
			rs, err := s.Suspend(ctx, []pawl.SuspendCall{call})
			return cli.ShowEach(a, rs, err, showMoved)
		},
	)
	cmd.Flags().StringVar(&until, "until", "", "a time, or a duration from now (10m)")
	cmd.Flags().StringVar(&signal, "signal", "", "or until this signal")
	cmd.Flags().StringVar(&key, "signal-key", "", "with this key")
	cmd.Flags().StringSliceVar(&children, "child", nil, "or until this child of its task has ended; may be repeated")
	cmd.Flags().StringVar(&need, "need", "", "with --child: how many have to end: all (default), any or a number")
	cmd.Flags().StringVar(&onFailure, "on-failure", "", "with --child, when one fails: fail (default), continue or cancel the others")
	return cmd
}

// readNeed reads "all", "any" or a number.
func readNeed(n *pawl.ChildNeed, text string) error {
	switch text {
	case "":
		return nil
	case "all", "any":
		text = fmt.Sprintf("%q", text)
	}
	if err := json.Unmarshal([]byte(strings.TrimSpace(text)), n); err != nil {
		return cli.Invalid("--need must be all, any or a number of children")
	}
	return nil
}
