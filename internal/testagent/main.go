// Command testagent is an agent for the tests of the AI SDK's stock client. It claims
// items of type talk directly from the database, not through a server, and streams
// the same message for each, word by word.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

const reply = "A pawl is the catch that lets a ratchet turn forward and never slip back. Für Elise, 雪, and a 🦫: what has been " +
	"said stays said, whoever listens."

func main() {
	db := flag.String("db", "", "URL of the database")
	pause := flag.Duration("pause", 20*time.Millisecond, "between words")
	hold := flag.String("hold", "", "a file; while it exists, the message stops half-way")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := work(ctx, *db, *hold, *pause); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func work(ctx context.Context, db, hold string, pause time.Duration) error {
	eng, err := engine.Open(ctx, db)
	if err != nil {
		return err
	}
	defer eng.Close()
	for {
		ls, err := eng.Claim(ctx, pawl.ClaimRequest{WorkerID: "testagent", Types: []string{"talk"}, WaitSeconds: 20})
		if err != nil {
			return err
		}
		for _, l := range ls {
			if err := answer(ctx, eng, l, hold, pause); err != nil {
				return err
			}
		}
	}
}

// answer streams the reply in two steps, with a tool call between them.
func answer(ctx context.Context, eng *engine.Engine, l pawl.Lease, hold string, pause time.Duration) error {
	at, to := l.OpenMessage.Offset, pawl.MessageFence{MessageID: l.OpenMessage.ID, WorkerID: l.WorkerID, Attempt: l.Attempt}
	send := func(chunks ...pawl.Chunk) error {
		time.Sleep(pause)
		rs, err := eng.Append(ctx, []pawl.AppendCall{{MessageFence: to, Offset: at, Chunks: chunks}})
		if err == nil {
			at, err = rs[0].Value.Offset, rs[0].Err
		}
		return err
	}
	first := []pawl.Chunk{
		{Type: pawl.ChunkReasoning, Text: "What is "},
		{Type: pawl.ChunkReasoning, Text: "it? "},
		{Type: pawl.ChunkText, Text: "Let me see. "},
		{Type: pawl.ChunkToolCall, ToolCallID: "c1", ToolName: "lookup", Input: []byte(`{"word":"pawl"}`)},
		{Type: pawl.ChunkToolResult, ToolCallID: "c1", ToolName: "lookup", Output: []byte(`["catch","ratchet"]`)},
	}
	for _, c := range first {
		if err := send(c); err != nil {
			return err
		}
	}
	if _, err := eng.StepMessages(ctx, []pawl.StepCall{{MessageFence: to}}); err != nil {
		return err
	}
	for n, word := range strings.SplitAfter(reply, " ") {
		for n == 10 && ctx.Err() == nil {
			if _, err := os.Stat(hold); err != nil {
				break
			}
			time.Sleep(pause)
		}
		if err := send(pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(word)}); err != nil {
			return err
		}
	}
	_, err := pawl.Complete(ctx, eng, l.Fence(), []byte("null"))
	return err
}
