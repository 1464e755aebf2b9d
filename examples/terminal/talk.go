package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
)

// talk shows the conversation, continues an open reply, and then takes questions until
// its input ends.
func talk(ctx context.Context, eng *engine.Engine, thread string) error {
	all, err := conversation(ctx, eng, thread)
	if err != nil {
		return err
	}
	for _, m := range all {
		if m.Role == pawl.RoleUser {
			fmt.Printf("> %s\n", m.Text())
			continue
		}
		if err := printReply(ctx, eng, m.ID); err != nil {
			return err
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	for fmt.Print("> "); lines.Scan(); fmt.Print("> ") {
		if lines.Text() == "" {
			continue
		}
		words, err := json.Marshal(lines.Text())
		if err != nil {
			return err
		}
		task, err := pawl.Create(ctx, eng, pawl.NewTask{Type: "chat", Thread: thread, MaxAttempts: 100,
			Messages: []pawl.NewMessage{{Role: pawl.RoleUser, Content: words}}, Reply: &pawl.Reply{}})
		if err != nil {
			return err
		}
		made, err := eng.ListMessages(ctx, pawl.MessageFilter{TaskID: task.ID, Statuses: []pawl.MessageState{pawl.MessageStreaming}})
		if err != nil {
			return err
		}
		for _, m := range made.Items {
			if err := printReply(ctx, eng, m.ID); err != nil {
				return err
			}
		}
	}
	return lines.Err()
}

// printReply prints a reply while it is written. Ctrl-C stops it.
func printReply(ctx context.Context, eng *engine.Engine, id string) error {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	defer signal.Stop(stop)
	done := make(chan error, 1)
	go func() { done <- eng.FollowMessage(ctx, id, -1, show) }()
	for {
		select {
		case err := <-done:
			return err
		case <-stop:
			if _, err := eng.StopMessages(ctx, []pawl.StopCall{{MessageID: id, Reason: "Ctrl-C"}}); err != nil {
				return err
			}
		}
	}
}

// show prints one frame of a reply.
func show(f pawl.MessageFrame) error {
	switch {
	case f.Abandoned != nil:
		fmt.Print("\n… (its maker was lost; another goes on)\n")
	case f.Snapshot != nil:
		fmt.Print(f.Snapshot.Text())
	case f.End != nil && f.End.Status != pawl.MessageComplete:
		fmt.Printf(" [%s]\n", f.End.Status)
	case f.End != nil:
		fmt.Println()
	}
	for _, c := range f.Chunks {
		switch c.Type {
		case pawl.ChunkText:
			fmt.Print(c.Text)
		case pawl.ChunkToolCall:
			fmt.Printf("[%s %s] ", c.ToolName, c.Input)
		}
	}
	return nil
}
