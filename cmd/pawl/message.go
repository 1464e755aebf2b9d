package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
)

func (a *app) messageCmd() *cobra.Command {
	return noun("message", "What was said, by users and by agents, while it is said too",
		a.messageList(), a.messageGet(), a.messageTail(), a.messageStop())
}

func (a *app) messageList() *cobra.Command {
	var f pawl.MessageFilter
	var p pages
	var status *choice[pawl.MessageState]
	cmd := a.verb("list", "List messages, oldest first: a conversation in its order", cobra.NoArgs, with(a, func(ctx context.Context, s pawl.MessageReader, _ []string) (err error) {
		if f.Statuses, err = status.read(); err != nil {
			return err
		}
		return list(ctx, a, p, messageHeader, messageRow, func(ctx context.Context, page pawl.Page) (pawl.List[pawl.Message], error) {
			f.Page = page
			return s.ListMessages(ctx, f)
		})
	}))
	p.flags(cmd)
	cmd.Flags().StringVar(&f.Thread, "thread", "", "of this conversation")
	cmd.Flags().StringVar(&f.TaskID, "task", "", "of this task")
	cmd.Flags().StringVar(&f.ItemID, "item", "", "of this item")
	status = choose[pawl.MessageState](cmd, "status", "with these statuses", shown(pawl.MessageStates))
	return cmd
}

const messageHeader = "MESSAGE\tROLE\tSTATUS\tSTEP\tCHUNKS\tTASK\tTHREAD\tTEXT"

func messageRow(m pawl.Message) string {
	return row(m.ID, m.Role, m.Status, m.StepNumber, m.Offset, m.TaskID, m.Thread, m.Text())
}

func (a *app) messageGet() *cobra.Command {
	return a.verb("get MESSAGE", "Show a message, whole at any moment", cobra.ExactArgs(1), with(a, func(ctx context.Context, s pawl.MessageReader, args []string) error {
		m, err := s.GetMessage(ctx, args[0])
		if err != nil {
			return err
		}
		parts, err := m.Parts()
		if err != nil {
			return err
		}
		return a.show(m, func(w io.Writer) {
			messageFields(w, m)
			for _, p := range parts {
				fmt.Fprintf(w, "\n%s\n", partText(p))
			}
		})
	}))
}

func messageFields(w io.Writer, m pawl.Message) {
	fields(w,
		"message", m.ID,
		"thread", printable(m.Thread),
		"task", m.TaskID,
		"item", m.ItemID,
		"namespace", m.Namespace,
		"role", m.Role,
		"status", string(m.Status),
		"model", printable(m.Model),
		"step", fmt.Sprintf("%d of %d", m.StepNumber, m.MaxSteps),
		"chunks", fmt.Sprint(m.Offset),
		"usage", clip(printable(string(m.Usage)), 200),
		"metadata", clip(printable(string(m.Metadata)), 200),
		"created", when(m.CreatedAt),
		"ended", whenever(m.EndedAt),
	)
}

// partText is a part for people: plain text as it is, all else with its kind.
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

// chunkText is a chunk for people; text goes on where the last one ended.
func chunkText(c pawl.Chunk) string {
	if c.Type == pawl.ChunkText || c.Type == pawl.ChunkReasoning {
		return readable(string(c.Text))
	}
	return "\n" + bracketed(c.Type, string(c.Text), c.ToolName, c.ToolCallID, c.MediaType, c.URL, string(c.Input), string(c.Output), string(c.Data)) + "\n"
}

func bracketed(words ...string) string {
	var out []string
	for _, w := range words {
		if w != "" {
			out = append(out, clip(printable(w), 200))
		}
	}
	return "[" + strings.Join(out, " ") + "]"
}

// readable keeps the lines of a text, and escapes what could steer a terminal.
func readable(s string) string {
	if !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }) {
		return s
	}
	var out strings.Builder
	for line := range strings.Lines(s) {
		text, end := strings.CutSuffix(line, "\n")
		out.WriteString(strings.ReplaceAll(printable(text), `\t`, "\t"))
		if end {
			out.WriteByte('\n')
		}
	}
	return out.String()
}

func (a *app) messageStop() *cobra.Command {
	var reason string
	cmd := a.verb("stop MESSAGE…", "Stop messages: what was said stays, and their workers learn", cobra.MinimumNArgs(1), with(a, func(ctx context.Context, s pawl.Stopper, args []string) error {
		calls := make([]pawl.StopCall, len(args))
		for i, id := range args {
			calls[i] = pawl.StopCall{MessageID: id, Reason: reason}
		}
		rs, err := s.StopMessages(a.byUser(ctx), calls)
		return each(a, rs, err, func(w io.Writer, ms []pawl.Message) {
			rows := make([]string, len(ms))
			for i, m := range ms {
				rows[i] = messageRow(m)
			}
			table(w, messageHeader, rows)
		})
	}))
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the record")
	return cmd
}
