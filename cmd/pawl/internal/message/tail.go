package message

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

func messageTail(a *cli.App) *cobra.Command {
	var after, last, epoch int64
	var follow bool
	cmd := a.Verb(
		"tail MESSAGE",
		"Print the content of a message; --follow continues until it ends",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.MessageReader, args []string) error {
			m, err := s.GetMessage(ctx, args[0])
			if err != nil {
				return err
			}
			if last > 0 {
				after = -1 - last
			}
			err = s.FollowMessage(pawl.InEpoch(ctx, epoch), m.ID, after, func(f pawl.MessageFrame) error {
				if err := printFrame(a, f); err != nil {
					return err
				}
				if !follow && m.Status == pawl.MessageStreaming && f.Last()+1 >= m.Offset {
					return errEndOfContent
				}
				return nil
			})
			if errors.Is(err, errEndOfContent) {
				err = nil
			}
			if err == nil && a.Config.Output != "json" {
				fmt.Fprintln(a.Stdout)
			}
			return err
		}),
	)
	cmd.Flags().Int64Var(&after, "after", -1, "begin after this chunk; the first is 0")
	cmd.Flags().Int64Var(&epoch, "epoch", 0, "the epoch of --after, as -o json shows it")
	cmd.Flags().Int64Var(&last, "last", 0, "begin with this many of the chunks that were written so far")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "continue until the message ends")
	return cmd
}

var errEndOfContent = errors.New("end of the content so far")

// frameLine is a frame as one line of JSON, with the members that the stream has.
type frameLine struct {
	Epoch     int64            `json:"epoch,omitempty"`
	Offset    int64            `json:"offset"`
	Chunks    []pawl.Chunk     `json:"chunks,omitempty"`
	Abandoned *pawl.Cut        `json:"abandoned,omitempty"`
	Snapshot  *pawl.Message    `json:"snapshot,omitempty"`
	End       *pawl.MessageEnd `json:"end,omitempty"`
	Begin     *pawl.MessageEnd `json:"-"`
}

// printFrame prints a frame: text as it arrives, or a line of JSON.
func printFrame(a *cli.App, f pawl.MessageFrame) error {
	if f.Chunks == nil && f.Abandoned == nil && f.Snapshot == nil && f.End == nil {
		return nil // only says that it has begun
	}
	if a.Config.Output == "json" {
		return a.Encode(frameLine(f), false)
	}
	var text string
	switch {
	case f.Abandoned != nil:
		text = fmt.Sprintf("\n[abandoned: written by attempt %d from chunk %d on]\n", f.Abandoned.Attempt, f.Abandoned.From)
	case f.Snapshot != nil:
		parts, err := f.Snapshot.Parts()
		if err != nil {
			return err
		}
		for i, p := range parts {
			if i > 0 {
				text += "\n"
			}
			text += partText(p)
		}
	case f.End != nil:
		text = fmt.Sprintf("\n[%s]", f.End.Status)
	}
	for _, c := range f.Chunks {
		text += chunkText(c)
	}
	_, err := fmt.Fprint(a.Stdout, text)
	return err
}
