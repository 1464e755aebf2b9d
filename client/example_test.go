package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/server"
	"github.com/pawl-work/pawl/worker"
)

// serve serves a database of its own. `pawl serve` does so outside of tests.
func serve() (address string, done func()) {
	dir := ok(os.MkdirTemp("", "pawl"))
	eng := ok(engine.Open(context.Background(), "sqlite:"+filepath.Join(dir, "work.db")))
	s := httptest.NewServer(server.New(eng, server.Options{Log: slog.New(slog.DiscardHandler)}))
	return s.URL, func() {
		s.Close()
		_, _ = eng.Close(), os.RemoveAll(dir)
	}
}

// ok returns v. An error ends the program.
func ok[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// A client has the verbs of an engine, over HTTP.
func ExampleNew() {
	ctx := context.Background()
	address, done := serve()
	defer done()

	c := client.New(address, "") // the second is the API key
	task := ok(pawl.Create(ctx, c, pawl.NewTask{Type: "report"}))
	fmt.Println(ok(c.GetTask(ctx, task.ID)).State)
	// Output: queued
}

// A worker runs over HTTP as it does in the process of the engine.
func ExampleClient_WaitTask() {
	ctx := context.Background()
	address, done := serve()
	defer done()

	c := client.New(address, "")
	task := ok(pawl.Create(ctx, c, pawl.NewTask{Type: "greet", Payload: json.RawMessage(`"world"`)}))
	ok(0, worker.RunWith(ctx, c, worker.Options{Drain: true, Logger: slog.New(slog.DiscardHandler)},
		worker.Handle("greet", func(_ context.Context, who string) (string, error) { return "hello, " + who, nil })))
	task = ok(pawl.Await(ctx, c, task.ID))
	fmt.Println(task.State, string(ok(c.TaskResult(ctx, task.ID)).Payload))
	// Output: completed "hello, world"
}

// A message is followed while it is written, and from wherever the reader stopped.
func ExampleClient_FollowMessage() {
	ctx := context.Background()
	address, done := serve()
	defer done()

	c := client.New(address, "")
	task := ok(pawl.Create(ctx, c, pawl.NewTask{Type: "chat", Reply: &pawl.Reply{}}))
	ok(0, worker.RunWith(ctx, c, worker.Options{Drain: true, Logger: slog.New(slog.DiscardHandler)},
		worker.Handle("chat", func(ctx context.Context, _ any) (string, error) {
			m, err := pawl.StartMessage(ctx, pawl.Reply{})
			if err == nil {
				err = m.Text("Good morning.")
			}
			if err == nil {
				err = m.Finish(ctx, nil)
			}
			return "", err
		})))
	message := ok(c.ListMessages(ctx, pawl.MessageFilter{TaskID: task.ID})).Items[0]
	ok(0, c.FollowMessage(ctx, message.ID, -1, func(f pawl.MessageFrame) error {
		for _, chunk := range f.Chunks {
			fmt.Print(chunk.Text)
		}
		return nil
	}))
	// Output: Good morning.
}
