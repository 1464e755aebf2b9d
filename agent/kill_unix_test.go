//go:build unix

package agent_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/agent"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
	"github.com/pawl-work/pawl/worker"
)

const process = "PAWL_TEST_PROCESS"

func TestMain(m *testing.M) {
	if os.Getenv(process) != "" {
		os.Exit(workerProcess())
	}
	pawltest.Main(m)
}

// expectedTurns returns the turns of the test's message: three steps with two tool calls each, and a final
// text.
func expectedTurns() []string {
	var turns []string
	for step := 1; step <= 3; step++ {
		var words []string
		for n := range 12 {
			words = append(words, fmt.Sprintf("s%dw%d", step, n))
		}
		turns = append(turns, strings.Join(append(words, fmt.Sprintf("look(%d) send(%d)", step, step)), " "))
	}
	return append(turns, "and that is all")
}

func expectedText() string {
	var out strings.Builder
	for _, turn := range expectedTurns() {
		for _, word := range strings.Fields(turn) {
			if !strings.Contains(word, "(") {
				out.WriteString(word + " ")
			}
		}
	}
	return out.String()
}

// toolRun is a line of a worker's journal: one execution of a tool.
type toolRun struct {
	Message, Tool string
	Attempt       int
}

// newTestLoop returns a loop that writes these turns. Tools report each execution before they do
// anything. Ask answers that a call of send without a result has happened.
func newTestLoop(tell func(toolRun)) agent.Loop {
	tool := func(name string) agent.Tool {
		return agent.Func(name, "", number, func(ctx context.Context, n int) (int, error) {
			l, err := pawl.ItemFrom(ctx)
			if err != nil {
				return 0, err
			}
			tell(toolRun{l.TaskID, fmt.Sprintf("%s(%d)", name, n), l.Attempt})
			time.Sleep(5 * time.Millisecond)
			return n, nil
		})
	}
	send := tool("send")
	send.SideEffects = true
	return agent.Loop{
		Model: &scriptedModel{turns: expectedTurns(), pause: 2 * time.Millisecond},
		Tools: []agent.Tool{tool("look"), send},
		Ask: func(context.Context, agent.Call) (agent.Outcome, error) {
			return agent.Outcome{Output: json.RawMessage(`"said to have happened"`)}, nil
		},
	}
}

// runTestWorker generates messages. It calls begins before each.
func runTestWorker(ctx context.Context, c pawl.Claimer, l agent.Loop, begins func()) error {
	o := worker.Options{LeaseSeconds: 1, Concurrency: 4, FlushEvery: 5 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)}
	return worker.RunWith(ctx, c, o, worker.Handle("chat", func(ctx context.Context, _ any) (agent.Result, error) {
		begins()
		return l.Run(ctx, nil)
	}))
}

// workerProcess is the main function of a worker process that is killed.
func workerProcess() int {
	ctx := context.Background()
	var c pawl.Claimer
	if url := os.Getenv("PAWL_TEST_SERVER"); url != "" {
		c = client.New(url, "")
	} else {
		e, err := engine.OpenWith(ctx, os.Getenv("PAWL_TEST_URL"), engine.Options{Schema: os.Getenv("PAWL_TEST_SCHEMA")})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		c = e
	}
	var mu sync.Mutex
	say := func(line []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = os.Stdout.Write(append(line, '\n'))
	}
	err := runTestWorker(ctx, c, newTestLoop(func(r toolRun) {
		line, _ := json.Marshal(r)
		say(line)
	}), func() { say(nil) })
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// runAndKill starts a worker process, kills it at a random moment of its streams, and reads its
// journal.
func runAndKill(t *testing.T, env ...string) (journal []toolRun) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env, c.Stderr = append(os.Environ(), append(env, process+"=worker")...), os.Stderr
	out, err := c.StdoutPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = c.Process.Kill() })
	defer timer.Stop()
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch begun := lines.Text() == ""; {
		case len(journal) > 0:
		case begun: // what is left of a message may have no tools
			timer.Reset(5 * time.Second)
		default: // the turns take 200 ms
			timer.Reset(rand.N(250 * time.Millisecond))
		}
		var r toolRun
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			journal = append(journal, r)
		}
	}
	_ = c.Wait()
	return journal
}

// follower follows a message to its end.
type follower struct {
	id     string
	chunks int64
	fault  string
	end    pawl.MessageState
}

func (l *follower) follow(ctx context.Context, s pawl.MessageReader) error {
	return s.FollowMessage(ctx, l.id, -1, func(f pawl.MessageFrame) error {
		if len(f.Chunks) > 0 && f.Offset != l.chunks {
			l.fault = fmt.Sprintf("chunk %d came when %d was due", f.Offset, l.chunks)
		}
		l.chunks += int64(len(f.Chunks))
		if f.End != nil {
			l.end = f.End.Status
		}
		return nil
	})
}

// Workers are killed at random moments of streamed generations. Every message becomes complete
// with the expected content. No tool ran again after its result was saved, and no tool with side
// effects ran twice. Followers got every chunk once.
func TestKilledGenerationsGoOn(t *testing.T) {
	for _, which := range pawltest.Databases {
		for _, service := range []string{"engine", "client"} {
			t.Run(string(which)+" "+service, func(t *testing.T) {
				t.Parallel()
				killWorkers(t, pawltest.OpenReal(t, which), service)
			})
		}
	}
}

func killWorkers(t *testing.T, p *pawltest.Pawl, service string) {
	ctx, stop := context.WithTimeout(t.Context(), 15*time.Minute)
	defer stop()
	var running, reading sync.WaitGroup
	running.Go(func() { _ = p.Engine.Run(ctx) })
	defer running.Wait()
	defer stop()
	env := []string{"PAWL_TEST_URL=" + p.URL, "PAWL_TEST_SCHEMA=" + p.Schema}
	readers := pawl.MessageReader(p.Engine)
	if service == "client" {
		srv := httptest.NewServer(server.New(p.Engine, server.Options{Log: slog.New(slog.DiscardHandler)}))
		defer srv.Close()
		env, readers = []string{"PAWL_TEST_SERVER=" + srv.URL}, client.New(srv.URL, "")
	}
	var all []*follower
	var journal []toolRun
	open := 0
	for range killCount(4, 100) {
		for ; open < 4; open++ { // as many as a worker takes
			if _, err := pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "chat", MaxAttempts: 1000, Thread: "all", Reply: &pawl.Reply{}}); err != nil {
				t.Fatal(err)
			}
		}
		all = followNew(t, ctx, p, readers, all, &reading)
		journal = append(journal, runAndKill(t, env...)...)
		list, err := p.Engine.ListMessages(ctx, pawl.MessageFilter{Thread: "all", Statuses: []pawl.MessageState{pawl.MessageStreaming}})
		if err != nil {
			t.Fatal(err)
		}
		open = len(list.Items)
	}
	own, end := context.WithCancel(ctx)
	var mu sync.Mutex
	running.Go(func() {
		_ = runTestWorker(own, p.Engine, newTestLoop(func(r toolRun) {
			mu.Lock()
			defer mu.Unlock()
			journal = append(journal, r)
		}), func() {})
	})
	reading.Wait()
	end()
	mu.Lock()
	defer mu.Unlock()
	checkResults(t, p, all, journal)
}

// followNew follows the messages that have no follower yet.
func followNew(
	t *testing.T,
	ctx context.Context,
	p *pawltest.Pawl,
	s pawl.MessageReader,
	known []*follower,
	reading *sync.WaitGroup,
) []*follower {
	t.Helper()
	list, err := p.Engine.ListMessages(ctx, pawl.MessageFilter{Thread: "all", Page: pawl.Page{Limit: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range list.Items[len(known):] {
		l := &follower{id: m.ID}
		known = append(known, l)
		reading.Go(func() {
			if err := l.follow(ctx, s); err != nil {
				t.Error(err)
			}
		})
	}
	return known
}

// checkResults compares the messages and the journal with the expected ones.
func checkResults(t *testing.T, p *pawltest.Pawl, all []*follower, journal []toolRun) {
	t.Helper()
	ctx := context.Background()
	took := map[toolRun]bool{}
	sent := map[toolRun]int{}
	attempts := 0
	saved := map[toolRun]int{} // the attempt that saved the result of a tool
	for _, l := range all {
		m, err := p.Engine.GetMessage(ctx, l.id)
		if err != nil {
			t.Fatal(err)
		}
		if m.Status != pawl.MessageComplete || m.Text() != expectedText() || m.StepNumber != 4 {
			t.Errorf("%s is %s, step %d:\n%s", m.ID, m.Status, m.StepNumber, m.Content)
		}
		if l.fault != "" || l.chunks != m.Offset || l.end != pawl.MessageComplete {
			t.Errorf("the reader of %s got %d chunks of %d, to the end %q: %s", m.ID, l.chunks, m.Offset, l.end, l.fault)
		}
		attempts += m.Attempt
		state, err := p.Engine.Resume(ctx, m.ItemID)
		if err != nil {
			t.Fatal(err)
		}
		for step := 1; step <= 3; step++ {
			for n, tool := range []string{"look", "send"} {
				c, known := state.Steps[fmt.Sprintf("tool:%d.%d@%s", step, n+1, m.ID)]
				if !known {
					t.Errorf("%s: step %d has no result of %s", m.ID, step, tool)
				}
				saved[toolRun{Message: m.TaskID, Tool: fmt.Sprintf("%s(%d)", tool, step)}] = c.Attempt
			}
		}
	}
	for _, r := range journal {
		key := toolRun{Message: r.Message, Tool: r.Tool}
		if took[r] || r.Attempt > saved[key] {
			t.Errorf("%+v ran although attempt %d had saved its result", r, saved[key])
		}
		took[r] = true
		if sent[key]++; strings.HasPrefix(r.Tool, "send") && sent[key] > 1 {
			t.Errorf("%+v ran twice", r)
		}
	}
	t.Logf("%d messages in %d attempts, %d runs of tools", len(all), attempts, len(journal))
	if attempts == len(all) {
		t.Error("nobody was killed within a message")
	}
}

// killCount returns the number of kills: short, or long with PAWL_TORTURE=1.
func killCount(short, long int) int {
	if os.Getenv("PAWL_TORTURE") != "" {
		return long
	}
	return short
}
