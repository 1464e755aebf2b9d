// Command goworker completes the items of a type with a handler that does nothing, and prints the
// seconds that it took. The Python worker is measured beside it.
//
//	goworker URL TYPE
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"

	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/worker"
)

func main() {
	nothing := func(context.Context, json.RawMessage) (json.RawMessage, error) { return nil, nil }
	o := worker.Options{Concurrency: 64, Drain: true, Logger: slog.New(slog.DiscardHandler)}
	start := clock.Now()
	err := worker.RunWith(context.Background(), client.New(os.Args[1], ""), o, worker.Handler{Type: os.Args[2], Do: nothing})
	if err != nil {
		fmt.Fprintln(os.Stderr, "goworker:", err)
		os.Exit(1)
	}
	fmt.Println(clock.Now().Sub(start).Seconds())
}
