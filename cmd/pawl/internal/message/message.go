// Package message has the commands of `pawl message`.
package message

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("message", "Messages of users and agents, readable while they are written",
		messageList(a), messageGet(a), messageTail(a), messageStop(a))
}

func messageList(a *cli.App) *cobra.Command {
	var f pawl.MessageFilter
	var p cli.Pages
	var status *cli.Choice[pawl.MessageState]
	cmd := a.Verb(
		"list",
		"List messages, the oldest first",
		cobra.NoArgs,
		cli.With(a, func(ctx context.Context, s pawl.MessageReader, _ []string) (err error) {
			if f.Statuses, err = status.Read(); err != nil {
				return err
			}
			return cli.List(ctx, a, p, messageHeader, messageRow, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Message], error) {
				f.Page = page
				return s.ListMessages(ctx, f)
			})
		}),
	)
	p.Flags(cmd)
	cmd.Flags().StringVar(&f.Thread, "thread", "", "of this conversation")
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.ItemID, "item", "", "of this item")
	cmd.Flags().BoolVar(&f.Stalled, "stalled", false, "open, and no worker writes them")
	cmd.Flags().BoolVar(&f.Desc, "desc", false, "newest first")
	status = cli.Choose[pawl.MessageState](cmd, "status", "with these statuses", cli.ShownStates(pawl.MessageStates))
	return cmd
}

const messageHeader = "MESSAGE\tROLE\tSTATUS\tSTEP\tCHUNKS\tTASK\tTHREAD\tTEXT"

func messageRow(m pawl.Message) string {
	return terminal.Row(m.ID, m.Role, m.Status, m.StepNumber, m.Offset, m.TaskID, m.Thread, m.Text())
}

func messageGet(a *cli.App) *cobra.Command {
	return a.Verb(
		"get MESSAGE",
		"Show a message with its content so far",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.MessageReader, args []string) error {
			m, err := s.GetMessage(ctx, args[0])
			if err != nil {
				return err
			}
			parts, err := m.Parts()
			if err != nil {
				return err
			}
			return a.Show(m, func(w io.Writer) {
				messageFields(w, m)
				for _, p := range parts {
					fmt.Fprintf(w, "\n%s\n", partText(p))
				}
			})
		}),
	)
}

func messageFields(w io.Writer, m pawl.Message) {
	terminal.Fields(w,
		"message", m.ID,
		"thread", terminal.Printable(m.Thread),
		"task", m.TaskID,
		"item", m.ItemID,
		"namespace", m.Namespace,
		"role", m.Role,
		"status", string(m.Status),
		"model", terminal.Printable(m.Model),
		"step", fmt.Sprintf("%d of %d", m.StepNumber, m.MaxSteps),
		"chunks", fmt.Sprint(m.Offset),
		"usage", terminal.Clip(terminal.Printable(string(m.Usage)), 200),
		"metadata", terminal.Clip(terminal.Printable(string(m.Metadata)), 200),
		"created", terminal.Time(m.CreatedAt),
		"ended", terminal.OptionalTime(m.EndedAt),
	)
}

// partText returns a part for people: plain text as it is, other parts with their type.
func partText(p pawl.MessagePart) string {
	if p.Text != nil {
		text := readable(*p.Text)
		if p.Type != pawl.ChunkText {
			text = "[" + p.Type + "] " + text
		}
		if p.Status == pawl.PartAbandoned {
			text = "[abandoned] " + text
		}
		return text
	}
	return bracketed(p.Type, p.Status, p.ToolName, p.ToolCallID, p.MediaType, p.URL, string(p.Input), string(p.Output), string(p.Data))
}

// chunkText returns a chunk for people; text continues where the last chunk ended.
func chunkText(c pawl.Chunk) string {
	if c.Type == pawl.ChunkText || c.Type == pawl.ChunkReasoning {
		return readable(string(c.Text))
	}
	return "\n" + bracketed(
		c.Type,
		string(c.Text),
		c.ToolName,
		c.ToolCallID,
		c.MediaType,
		c.URL,
		string(c.Input),
		string(c.Output),
		string(c.Data),
	) + "\n"
}

func bracketed(words ...string) string {
	var out []string
	for _, w := range words {
		if w != "" {
			out = append(out, terminal.Clip(terminal.Printable(w), 200))
		}
	}
	return "[" + strings.Join(out, " ") + "]"
}

// readable keeps line breaks and escapes control characters, which could steer a
// terminal.
func readable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }) {
		return s
	}
	var out strings.Builder
	for line := range strings.Lines(s) {
		text, end := strings.CutSuffix(line, "\n")
		out.WriteString(strings.ReplaceAll(terminal.Printable(text), `\t`, "\t"))
		if end {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func messageStop(a *cli.App) *cobra.Command {
	var reason string
	cmd := a.Verb(
		"stop MESSAGE…",
		"Stop messages; their content stays, and their workers are told",
		cobra.MinimumNArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.Stopper, args []string) error {
			calls := make([]pawl.StopCall, len(args))
			for i, id := range args {
				calls[i] = pawl.StopCall{MessageID: id, Reason: reason}
			}
			rs, err := s.StopMessages(a.ByUser(ctx), calls)
			return cli.ShowEach(a, rs, err, func(w io.Writer, ms []pawl.Message) {
				rows := make([]string, len(ms))
				for i, m := range ms {
					rows[i] = messageRow(m)
				}
				terminal.Table(w, messageHeader, rows)
			})
		}),
	)
	cmd.Flags().StringVar(&reason, "reason", "", "reason, stored in the event")
	return cmd
}
