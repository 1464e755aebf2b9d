package worker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/worker"
)

// This worker counts words. The count is a step, which a later attempt would not run again.
func Example() {
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

	_, err = pawl.Create(ctx, eng, pawl.NewTask{Type: "text.count", Payload: json.RawMessage(`"a pawl lets a ratchet turn forward"`)})
	if err != nil {
		log.Fatal(err)
	}
	err = worker.Run(ctx, eng, worker.Handle("text.count", func(ctx context.Context, text string) (int, error) {
		defer stop() // a worker runs until its context ends
		n, err := pawl.Step(ctx, "count", func(context.Context) (int, error) {
			words := 1
			for _, r := range text {
				if r == ' ' {
					words++
				}
			}
			return words, nil
		})
		fmt.Println(n, "words")
		return n, err
	}))
	if err != nil {
		log.Fatal(err)
	}
	tasks, err := eng.ListTasks(context.Background(), pawl.TaskFilter{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(tasks.Items[0].State)
	// Output:
	// 7 words
	// completed
}
