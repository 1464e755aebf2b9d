package worker_test

import (
	"context"
	"fmt"
	"log"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/worker"
)

type greeting struct{ To string }

var greet = pawl.NewJob[greeting, string]("greet")

// A job creates its tasks and reads their results in its own types.
func Example_job() {
	dir, err := os.MkdirTemp("", "pawl")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(context.Background())
	eng, err := engine.Open(ctx, "sqlite:"+filepath.Join(dir, "work.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer eng.Close()
	done := make(chan error, 1)
	go func() {
		done <- engine.Serve(ctx, eng, func(ctx context.Context) error {
			o := worker.Options{Logger: slog.New(slog.DiscardHandler)}
			return worker.RunWith(ctx, eng, o, worker.Handle(greet, func(_ context.Context, g greeting) (string, error) {
				return "hello, " + g.To, nil
			}))
		})
	}()
	task, err := greet.Create(ctx, eng, greeting{To: "world"})
	if err != nil {
		log.Fatal(err)
	}
	said, err := greet.Await(ctx, eng, task.ID)
	fmt.Println(said, err)
	stop()
	fmt.Println(<-done)
	// Output:
	// hello, world <nil>
	// <nil>
}
