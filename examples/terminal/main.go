// Command terminal is a chat in a terminal that survives a crash of either process.
//
//	go run . answer    # in one terminal: writes the replies
//	go run .           # in another: asks, and shows the replies
//
// Kill either with -9 in the middle of a reply and start it again: the reply continues
// from its last step, and the reader at the same word. Ctrl-C stops a reply. The default
// model repeats its input and runs anywhere; -model uses another one, at OPENAI_BASE_URL
// with OPENAI_API_KEY.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/agent"
	"github.com/pawl-work/pawl/contrib/openai"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/worker"
)

func main() {
	db := flag.String("db", "sqlite:chat.db", "the database that both sides share")
	thread := flag.String("thread", "main", "the conversation")
	name := flag.String("model", "", "a model's name; empty = a model that repeats the input")
	flag.Parse()
	if err := run(*db, *thread, *name, flag.Arg(0) == "answer"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(db, thread, name string, answers bool) error {
	ctx, stop := context.WithCancel(context.Background())
	eng, err := engine.Open(ctx, db)
	if err != nil {
		stop()
		return err
	}
	defer eng.Close()
	var sweeps sync.WaitGroup
	sweeps.Go(func() { _ = eng.Run(ctx) }) // takes up again what the dead held
	defer sweeps.Wait()
	defer stop()
	if !answers {
		return talk(ctx, eng, thread)
	}
	var model agent.Model = echoModel{}
	if name != "" {
		model = openai.New(openai.Options{Model: name})
	}
	ctx, done := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer done()
	return answer(ctx, eng, model)
}

// answer writes replies until ctx ends.
func answer(ctx context.Context, eng *engine.Engine, model agent.Model) error {
	count := agent.Func("count", "Counts the words of a text", `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`,
		func(_ context.Context, in struct{ Text string }) (int, error) {
			return len(strings.Fields(in.Text)), nil
		})
	loop := agent.Loop{Model: model, System: "You are brief and friendly.", Tools: []agent.Tool{count}}
	o := worker.Options{LeaseSeconds: 3, Logger: slog.New(slog.DiscardHandler)} // so long a reply waits when its maker has died
	err := worker.RunWith(ctx, eng, o, worker.Handle("chat", func(ctx context.Context, _ json.RawMessage) (agent.Result, error) {
		said, err := before(ctx, eng)
		if err != nil {
			return agent.Result{}, err
		}
		return loop.Run(ctx, said)
	}))
	if errors.Is(err, worker.ErrGivenBack) {
		return nil // another one goes on with it
	}
	return err
}

// before returns the messages of the conversation before the reply.
func before(ctx context.Context, eng *engine.Engine) ([]agent.Message, error) {
	item, err := pawl.ItemFrom(ctx)
	if err != nil {
		return nil, err
	}
	task, err := eng.GetTask(ctx, item.TaskID)
	if err != nil {
		return nil, err
	}
	all, err := conversation(ctx, eng, task.Thread)
	if err != nil {
		return nil, err
	}
	for i, m := range all {
		if m.TaskID == task.ID && m.Role == pawl.RoleAssistant {
			return agent.Conversation(all[:i])
		}
	}
	return agent.Conversation(all)
}

// conversation returns a whole thread.
func conversation(ctx context.Context, eng *engine.Engine, thread string) (all []pawl.Message, err error) {
	f := pawl.MessageFilter{Thread: thread}
	for {
		list, err := eng.ListMessages(ctx, f)
		if all = append(all, list.Items...); err != nil || list.Next == "" {
			return all, err
		}
		f.Cursor = list.Next
	}
}
