package engine_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/worker"
)

// A database that does not exist is created. Close ends what the engine does in the background.
func ExampleOpen() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "pawl"))
	defer os.RemoveAll(dir)

	eng := must(engine.Open(ctx, "sqlite:"+filepath.Join(dir, "work.db")))
	task := must(pawl.Create(ctx, eng, pawl.NewTask{Type: "report"}))
	must(0, eng.Close())

	eng = must(engine.Open(ctx, "sqlite:"+filepath.Join(dir, "work.db")))
	defer eng.Close()
	fmt.Println(must(eng.GetTask(ctx, task.ID)).State)
	// Output: queued
}

// The rules of types are set when the engine opens.
func ExampleOpenWith() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "pawl"))
	defer os.RemoveAll(dir)
	eng := must(engine.OpenWith(ctx, "sqlite:"+filepath.Join(dir, "work.db"), engine.Options{
		Types:               []pawl.Type{{Name: "sum", PayloadSchema: json.RawMessage(`{"type":"array"}`)}},
		RegisteredTypesOnly: true,
	}))
	defer eng.Close()

	tasks := []pawl.NewTask{{Type: "sum", Payload: json.RawMessage(`[1,2]`)}, {Type: "sum", Payload: json.RawMessage(`3`)}, {Type: "mean"}}
	for _, made := range must(eng.CreateTasks(ctx, tasks)) {
		fmt.Println(made.Err == nil)
	}
	// Output:
	// true
	// false
	// false
}

// A task and a row of the program's own are committed together, or not at all.
func ExampleEngine_In() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "pawl"))
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "shop.db")
	eng := must(engine.Open(ctx, "sqlite:"+file))
	defer eng.Close()
	db := must(sql.Open("sqlite", file+"?_txlock=immediate&_pragma=busy_timeout(5000)"))
	defer db.Close()
	must(db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY, task_id TEXT NOT NULL)"))

	tx := must(db.BeginTx(ctx, nil))
	in := eng.In(tx)
	task := must(in.Create(ctx, pawl.NewTask{Type: "invoice"}))
	must(tx.Exec("INSERT INTO orders (id, task_id) VALUES (7, ?)", task.ID))
	must(0, tx.Commit())
	in.Committed() // waiting claims see the task at once

	fmt.Println(must(eng.GetTask(ctx, task.ID)).State)
	// Output: queued
}

// An engine and its workers begin and end together.
func ExampleServe() {
	ctx, stop := context.WithCancel(context.Background())
	dir := must(os.MkdirTemp("", "pawl"))
	defer os.RemoveAll(dir)
	eng := must(engine.Open(ctx, "sqlite:"+filepath.Join(dir, "work.db")))
	defer eng.Close()
	must(pawl.Create(ctx, eng, pawl.NewTask{Type: "greet", Payload: json.RawMessage(`"world"`)}))

	greet := worker.Handle("greet", func(_ context.Context, who string) (string, error) {
		defer stop()
		fmt.Println("hello,", who)
		return "done", nil
	})
	err := engine.Serve(ctx, eng, func(ctx context.Context) error {
		return worker.RunWith(ctx, eng, worker.Options{Logger: slog.New(slog.DiscardHandler)}, greet)
	})
	fmt.Println(err)
	// Output:
	// hello, world
	// <nil>
}

// Of a queue with limits, no more items are claimed than the limits allow.
func ExampleEngine_SetQueue() {
	ctx := context.Background()
	dir := must(os.MkdirTemp("", "pawl"))
	defer os.RemoveAll(dir)
	eng := must(engine.Open(ctx, "sqlite:"+filepath.Join(dir, "work.db")))
	defer eng.Close()

	atOnce := 2
	must(eng.SetQueue(ctx, "render", pawl.QueueLimits{Concurrency: &atOnce}.Patch()))
	must(eng.CreateTasks(ctx, []pawl.NewTask{{Type: "render"}, {Type: "render"}, {Type: "render"}}))
	leases := must(eng.Claim(ctx, pawl.ClaimRequest{WorkerID: "w1", Types: []string{"render"}, Limit: 10}))
	fmt.Println(len(leases))
	// Output: 2
}

// Who cannot let a program change a schema runs its SQL by hand.
func ExampleSchemaSQL() {
	text := must(engine.SchemaSQL("postgres", "work", 0))
	fmt.Println(strings.Contains(text, "CREATE TABLE"), strings.Contains(text, `"work"`) || strings.Contains(text, "work."))
	_, err := engine.SchemaSQL("oracle", "", 0)
	fmt.Println(err != nil && !errors.Is(err, context.Canceled))
	// Output:
	// true true
	// true
}
