package openai_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/openai/openai-go/v3/option"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/agent"
	"github.com/pawl-work/pawl/contrib/openai"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// fakeServer is a fake of the provider's server. Its second turn breaks off the first time.
type fakeServer struct {
	mu   sync.Mutex
	asks map[string][]ask // by model
}

type ask struct {
	Model    string `json:"model"`
	Stream   bool   `json:"stream"`
	Messages []struct {
		Role       string          `json:"role"`
		Content    json.RawMessage `json:"content"`
		ToolCallID string          `json:"tool_call_id"`
		ToolCalls  []struct {
			ID       string `json:"id"`
			Function struct{ Name, Arguments string }
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name       string         `json:"name"`
			Parameters map[string]any `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

// turns are the model's output: the deltas of its choice.
var turns = [][]string{{
	`{"role":"assistant","reasoning_content":"hm"}`, `{"content":"Let me "}`, `{"content":"look. "}`,
	`{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"look","arguments":""}}]}`,
	`{"tool_calls":[{"index":0,"function":{"arguments":"{\"n\""}}]}`, `{"tool_calls":[{"index":0,"function":{"arguments":":7}"}}]}`,
	`{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"look","arguments":"{\"n\":8}"}}]}`,
}, {
	`{"role":"assistant","content":""}`, `{"content":"It is "}`, `{"content":"70 and 80 😀."}`,
}}

func (w *fakeServer) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	var a ask
	if err := json.NewDecoder(r.Body).Decode(&a); err != nil || r.URL.Path != "/v1/chat/completions" ||
		r.Header.Get("Authorization") != "Bearer k" ||
		!a.Stream {
		http.Error(rw, `{"error":{"message":"bad request"}}`, http.StatusBadRequest)
		return
	}
	turn := 0
	for _, m := range a.Messages {
		if m.Role == "assistant" {
			turn++
		}
	}
	w.mu.Lock()
	w.asks[a.Model] = append(w.asks[a.Model], a)
	cut := len(w.asks[a.Model]) == 2
	w.mu.Unlock()
	rw.Header().Set("Content-Type", "text/event-stream")
	send := func(choices, usage string) {
		fmt.Fprintf(
			rw,
			"data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"created\":1,\"model\":%q,\"choices\":[%s]%s}\n\n",
			a.Model,
			choices,
			usage,
		)
		rw.(http.Flusher).Flush()
	}
	for n, delta := range turns[turn] {
		if cut && n == 2 {
			return // the connection breaks, as it does: without a word
		}
		send(`{"index":0,"delta":`+delta+`,"finish_reason":null}`, "")
	}
	send(`{"index":0,"delta":{},"finish_reason":"`+map[int]string{0: "tool_calls", 1: "stop"}[turn]+`"}`, "")
	send("", `,"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}`)
	io.WriteString(rw, "data: [DONE]\n\n")
}

var server = &fakeServer{asks: map[string][]ask{}}

func TestMain(m *testing.M) {
	srv := httptest.NewServer(server)
	for name, value := range map[string]string{"OPENAI_BASE_URL": srv.URL + "/v1", "OPENAI_API_KEY": "k"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	pawltest.Main(m)
}

func TestAGenerationThatBreaksOffGoesOn(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		name := "m-" + rand.Text() // the model of this run alone
		var runs atomic.Int64
		look := agent.Func(
			"look",
			"Looks",
			`{"type":"object","properties":{"n":{"type":"integer"}}}`,
			func(_ context.Context, in struct{ N int }) (int, error) {
				runs.Add(1)
				return 10 * in.N, nil
			},
		)
		loop := agent.Loop{Model: openai.New(openai.Options{Model: name}), System: "Be brief.", Tools: []agent.Tool{look}}
		ctx, stop := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			done <- worker.RunWith(ctx, p.Engine, worker.Options{Logger: slog.New(slog.DiscardHandler)},
				worker.Handle("chat", func(ctx context.Context, words string) (agent.Result, error) {
					return loop.Run(ctx, []agent.Message{agent.Text(pawl.RoleUser, words)})
				}))
		}()
		defer func() { stop(); <-done }()
		task, err := pawl.Create(ctx, p.Engine, pawl.NewTask{Type: "chat", Payload: json.RawMessage(`"7 and 8?"`), Reply: &pawl.Reply{}})
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
			now, err := p.Engine.GetTask(ctx, task.ID)
			if err != nil || time.Now().After(end) || now.State == pawl.TaskFailed {
				t.Fatal(now.State, now.Error, err)
			}
			if now.State == pawl.TaskCompleted {
				break
			}
			p.Advance(50 * time.Millisecond) // it is tried again after a second
			if _, err := p.Engine.Sweep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		list, err := p.Engine.ListMessages(ctx, pawl.MessageFilter{TaskID: task.ID})
		if err != nil || len(list.Items) != 1 {
			t.Fatal(list, err)
		}
		m := list.Items[0]
		if m.Text() != "Let me look. It is 70 and 80 😀." || m.StepNumber != 2 || string(m.Usage) != `{"input_tokens":20,"output_tokens":10}` ||
			m.Attempt != 2 ||
			runs.Load() != 2 {
			t.Errorf("%d runs, %+v\n%s", runs.Load(), m, m.Content)
		}
		if !strings.Contains(string(m.Content), `"abandoned"`) || !strings.Contains(string(m.Content), `{"type":"reasoning","text":"hm"}`) {
			t.Errorf("%s", m.Content)
		}
		server.mu.Lock()
		asks := slices.Clone(server.asks[name])
		server.mu.Unlock()
		checkRequests(t, asks)
	})
}

// checkRequests checks the requests.
func checkRequests(t *testing.T, asks []ask) {
	t.Helper()
	if len(asks) != 3 {
		t.Fatalf("asked %d times", len(asks))
	}
	a := asks[2]
	var said []string
	for _, m := range a.Messages {
		said = append(said, m.Role+" "+string(m.Content)+m.ToolCallID)
	}
	want := []string{`system "Be brief."`, `user "7 and 8?"`, `assistant "Let me look. "`, `tool "70"call_a`, `tool "80"call_b`}
	if strings.Join(said, "\n") != strings.Join(want, "\n") {
		t.Errorf("asked\n%s", strings.Join(said, "\n"))
	}
	if calls := a.Messages[2].ToolCalls; len(calls) != 2 || calls[0].ID != "call_a" || calls[0].Function.Name != "look" ||
		calls[0].Function.Arguments != `{"n":7}` {
		t.Errorf("%+v", calls)
	}
	if len(a.Tools) != 1 || a.Tools[0].Function.Name != "look" || a.Tools[0].Function.Parameters["type"] != "object" {
		t.Errorf("%+v", a.Tools)
	}
}

func TestErrorsSayWhetherTheyPass(t *testing.T) {
	for status, again := range map[int]bool{400: false, 401: false, 404: false, 429: true, 500: true, 503: true} {
		srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Content-Type", "application/json")
			rw.Header().Set("Retry-After", "7")
			rw.WriteHeader(status)
			_, _ = io.WriteString(rw, `{"error":{"message":"no","type":"x","code":"y","param":""}}`)
		}))
		m := openai.New(openai.Options{Model: "m", Client: []option.RequestOption{option.WithBaseURL(srv.URL), option.WithMaxRetries(0)}})
		_, err := m.Stream(t.Context(), agent.Request{}, func(agent.Part) error { return nil })
		srv.Close()
		if retry, after := pawl.RetryOf(err); retry != again || again && (after == nil || *after != 7*time.Second) {
			t.Errorf("%d: %v, retried: %v after %v", status, err, retry, after)
		}
	}
	m := openai.New(
		openai.Options{Model: "m", Client: []option.RequestOption{option.WithBaseURL("http://127.0.0.1:1"), option.WithMaxRetries(0)}},
	)
	_, err := m.Stream(t.Context(), agent.Request{}, nil)
	if retry, after := pawl.RetryOf(err); !retry || after == nil {
		t.Errorf("no server: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Stream(ctx, agent.Request{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
