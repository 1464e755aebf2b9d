package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// asked records how long claims are asked to wait.
type asked struct {
	pawl.Service
	seconds chan int
}

func (a asked) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	a.seconds <- req.WaitSeconds
	req.WaitSeconds = 0
	return a.Service.Claim(ctx, req)
}

// No tool waits for more than 50 s. A longer wait is cut to that, as the schema says.
func TestNoToolWaitsLong(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	svc := asked{p.Service, make(chan int, 1)}
	a := connect(t, p, pipe(t, svc, mcp.Options{Log: quiet}))
	for given, want := range map[int]int{0: 0, 50: 50, 51: 50, 3600: 50} {
		a.ok("work_checkout", args{"worker_id": "w", "wait_seconds": given})
		if got := <-svc.seconds; got != want {
			t.Errorf("%d s became %d s, want %d s", given, got, want)
		}
	}
	l, err := a.session.ListTools(t.Context(), nil)
	a.must(err)
	waiting := 0
	for _, tool := range l.Tools {
		raw, err := json.Marshal(tool.InputSchema)
		a.must(err)
		if strings.Contains(string(raw), `"wait_seconds"`) {
			if waiting++; !strings.Contains(string(raw), "0 to 50") || !strings.Contains(string(raw), "more counts as 50") {
				t.Errorf("%s does not say how long it waits: %s", tool.Name, raw)
			}
		}
	}
	if waiting != 3 {
		t.Errorf("%d tools wait, want work_checkout, work_wait and work_run", waiting)
	}
	task := a.ok("work_propose", args{"type": "a"}).Task.ID
	began := clock.Now()
	if got := a.ok("work_wait", args{"task_id": task, "wait_seconds": 1}); !got.TimedOut || clock.Now().Sub(began) < time.Second {
		t.Errorf("%+v", got)
	}
	res, err := a.session.CallTool(t.Context(), &sdk.CallToolParams{Name: "work_run", Arguments: args{"type": "b", "wait_seconds": 0}})
	a.must(err)
	if text := res.Content[0].(*sdk.TextContent).Text; !strings.Contains(text, "work_wait") {
		t.Errorf("work_run that does not wait: %s", text)
	}
}

// A call that waits reports its progress to a client that gave a token, and to no other.
func TestAWaitReportsProgress(t *testing.T) {
	t.Parallel()
	p := pawltest.OpenReal(t, pawltest.SQLite, engine.Options{})
	task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"})
	if err != nil {
		t.Fatal(err)
	}
	s := mcp.New(p.Service, mcp.Options{Log: quiet}).ReportEvery(300 * time.Millisecond)
	in, toServer := io.Pipe()
	fromServer, out := io.Pipe()
	go func() { _ = s.Stdio(context.WithoutCancel(t.Context()), in, out) }()
	defer toServer.Close()
	for name, over := range map[string]sdk.Transport{
		"stdio": &sdk.IOTransport{Reader: fromServer, Writer: toServer},
		"http":  &sdk.StreamableClientTransport{Endpoint: listen(t, s.HTTP())},
	} {
		reports := make(chan *sdk.ProgressNotificationParams, 100)
		session, err := sdk.NewClient(&sdk.Implementation{Name: "tester", Version: "1"}, &sdk.ClientOptions{
			ProgressNotificationHandler: func(_ context.Context, r *sdk.ProgressNotificationClientRequest) { reports <- r.Params },
		}).Connect(t.Context(), over, nil)
		if err != nil {
			t.Fatal(err)
		}
		for tool, in := range map[string]args{
			"work_wait":     {"task_id": task.ID, "wait_seconds": 1},
			"work_checkout": {"worker_id": "w", "types": []string{"none"}, "wait_seconds": 1},
			"work_run":      {"type": "run", "wait_seconds": 1},
		} {
			call := &sdk.CallToolParams{Name: tool, Arguments: in}
			if _, err := session.CallTool(t.Context(), call); err != nil {
				t.Fatal(name, tool, err)
			}
			if len(reports) != 0 {
				t.Errorf("%s, %s: %d reports without a token", name, tool, len(reports))
			}
			call.SetProgressToken("p " + tool)
			if _, err := session.CallTool(t.Context(), call); err != nil {
				t.Fatal(name, tool, err)
			}
			last := 0.0
			for n := 0; n < 2; n++ { // of three: the last may come late
				select {
				case r := <-reports:
					if r.ProgressToken != "p "+tool || r.Progress <= last {
						t.Errorf("%s, %s: %+v after %v", name, tool, r, last)
					}
					last = r.Progress
				case <-time.After(60 * time.Second):
					t.Fatalf("%s, %s: %d reports", name, tool, n)
				}
			}
			time.Sleep(50 * time.Millisecond)
			for len(reports) > 0 {
				<-reports
			}
		}
		_ = session.Close()
	}
}

// unaware is a service that claims although its caller has gone, as one that learns of it
// too late.
type unaware struct {
	pawl.Service
	begun chan context.Context // of the claim that has begun
	goOn  chan bool
}

func (u unaware) Claim(ctx context.Context, req pawl.ClaimRequest) ([]pawl.Lease, error) {
	u.begun <- ctx
	<-u.goOn
	req.WaitSeconds = 0
	return u.Service.Claim(context.WithoutCancel(ctx), req)
}

// noticed waits until the server knows that the caller of a claim has gone. An answer that
// is written before that is delivered, as far as the server can tell.
func noticed(t *testing.T, claim context.Context) {
	t.Helper()
	select {
	case <-claim.Done():
	case <-time.After(60 * time.Second):
		t.Fatal("the claim does not end with its caller")
	}
}

// free wants the only item of a task to be free again, with no failure counted.
func free(t *testing.T, svc pawl.Service, task string) {
	t.Helper()
	for end := time.After(60 * time.Second); ; {
		l, err := svc.ListItems(t.Context(), pawl.ItemFilter{TaskID: task})
		if err != nil {
			t.Fatal(err)
		}
		if i := l.Items[0]; i.State == pawl.ItemQueued && i.Attempt > 0 {
			if i.Failures != 0 {
				t.Errorf("it counts as %d failures", i.Failures)
			}
			return
		}
		select {
		case <-time.After(5 * time.Millisecond):
		case <-end:
			t.Fatalf("the item is not given back: %+v", l.Items[0])
		}
	}
}

const checkingOut = `{"name":"work_checkout","arguments":{"worker_id":"w","wait_seconds":30}`

// A claim for a client that has ended its request goes back at once, in every revision.
func TestAClaimOfAnEndedRequestGoesBack(t *testing.T) {
	for revision, meta := range map[string]string{newest: stating, "2025-11-25": ""} {
		t.Run(revision, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", MaxAttempts: 1})
				if err != nil {
					t.Fatal(err)
				}
				svc := unaware{p.Service, make(chan context.Context), make(chan bool)}
				ctx, leave := context.WithCancel(t.Context())
				req, err := http.NewRequestWithContext(ctx, http.MethodPost, serve(t, svc)+"/mcp",
					strings.NewReader(calling("1", checkingOut+`,"_meta":{`+meta+`}}`)))
				if err != nil {
					t.Fatal(err)
				}
				for name, value := range map[string]string{"Content-Type": asJSON, "Accept": asJSON + "," + asStream,
					"Mcp-Protocol-Version": revision, "Mcp-Method": "tools/call", "Mcp-Name": "work_checkout"} {
					req.Header.Set(name, value)
				}
				claims := make(chan context.Context, 1)
				go func() {
					claims <- <-svc.begun
					leave()
				}()
				if res, err := http.DefaultClient.Do(req); err == nil {
					_ = res.Body.Close()
					t.Fatal("the request was answered")
				}
				noticed(t, <-claims)
				svc.goOn <- true
				free(t, p.Service, task.ID)
				ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "other"})
				if err != nil || len(ls) != 1 || ls[0].Failures != 0 {
					t.Errorf("%+v, %v", ls, err)
				}
			})
		})
	}
}

// The same holds for a client on stdio that cancels its call, or does not read any more.
func TestAClaimOfAClientThatGaveUpGoesBack(t *testing.T) {
	const call = hello + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":` + checkingOut + `}}` + "\n"
	const cancel = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}` + "\n"
	for _, how := range []string{"cancelled", "closed"} {
		t.Run(how, func(t *testing.T) {
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", MaxAttempts: 1})
				if err != nil {
					t.Fatal(err)
				}
				svc := unaware{p.Service, make(chan context.Context), make(chan bool)}
				in, toServer := io.Pipe()
				fromServer, out := io.Pipe()
				done := make(chan error, 1)
				go func() {
					done <- mcp.New(svc, mcp.Options{Log: quiet}).Stdio(context.WithoutCancel(t.Context()), in, out)
				}()
				go func() { _, _ = io.WriteString(toServer, call) }()
				answers := make([]byte, 1)
				if _, err := io.ReadFull(fromServer, answers); err != nil { // of initialize
					t.Fatal(err)
				}
				go func() { _, _ = io.Copy(io.Discard, fromServer) }()
				claim := <-svc.begun
				if how == "closed" {
					_ = fromServer.Close()
				} else if _, err := io.WriteString(toServer, cancel); err != nil {
					t.Fatal(err)
				} else {
					noticed(t, claim)
				}
				svc.goOn <- true
				free(t, p.Service, task.ID)
				_ = toServer.Close()
				_ = fromServer.Close()
				<-done
			})
		})
	}
}

// A checkout that waits is a long call of its key, under an idempotency key too: it ends when the server
// stops, with an empty answer, and when the key is revoked, with a refusal.
func TestACheckoutThatWaitsEnds(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for _, revoked := range []bool{false, true} {
			stopping, stop := context.WithCancel(t.Context())
			defer stop()
			g := guardUntil(stopping, t, p, access.Options{LongCallsPerKey: 2})
			key, token, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "c", Roles: []string{"claimer"}})
			if err != nil {
				t.Fatal(err)
			}
			checkout := func(k string) reply {
				return rpc{T: t, url: g.url, token: token}.keyed("tools/call", "work_checkout",
					args{"name": "work_checkout", "arguments": args{"worker_id": "w", "wait_seconds": 50}}, k)
			}
			done := make(chan reply, 2)
			for _, k := range []string{"", "k"} {
				go func() { done <- checkout(k) }()
			}
			for ; g.gate.LongCalls(key.ID) < 2; time.Sleep(5 * time.Millisecond) {
				if len(done) > 0 {
					t.Fatalf("it did not wait as a long call: %+v", <-done)
				}
			}
			if r := checkout("l"); r.Result.StructuredContent.Problem.Code != pawl.CodeLimit {
				t.Errorf("one more: %+v", r)
			}
			if !revoked {
				stop()
			} else if _, err := p.Engine.RevokeAPIKey(t.Context(), key.ID); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if r := <-done; r.Result.IsError != revoked || revoked && r.Result.StructuredContent.Problem.Code != pawl.CodeUnauthenticated {
					t.Errorf("revoked %t: %+v", revoked, r)
				}
			}
		}
	})
}

// A checkout under a key that is repeated while the server stops gets the stored answer.
func TestAKeyedCheckoutIsReplayedWhileTheServerStops(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		stopping, stop := context.WithCancel(t.Context())
		defer stop()
		pawltest.Must[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}))
		url := listen(t, mcp.New(p.Service, mcp.Options{Log: quiet, Stopping: stopping}).HTTP())
		checkout := func(wait int) reply {
			return rpc{T: t, url: url}.keyed("tools/call", "work_checkout",
				args{"name": "work_checkout", "arguments": args{"worker_id": "w", "wait_seconds": wait}}, "k")
		}
		first := checkout(10)
		stop()
		if len(first.Result.StructuredContent.Items) != 1 {
			t.Fatalf("%+v", first)
		}
		again := checkout(10)
		if again.Result.Meta[mcp.ReplayedMeta] != true || !reflect.DeepEqual(again.Result.StructuredContent, first.Result.StructuredContent) {
			t.Errorf("%+v; first %+v", again, first)
		}
		if r := checkout(11); !r.Result.IsError || r.Result.StructuredContent.Problem.Code != pawl.CodeKeyReused {
			t.Errorf("the key of another call: %+v", r)
		}
	})
}

// stopsAfter lets the server stop after a try of a call that found nothing, before the look at its key.
type stopsAfter struct {
	*engine.Engine
	stop func()
}

func (s *stopsAfter) Idempotent(ctx context.Context, k pawl.KeyBegin,
	run func(context.Context, pawl.Service) (*pawl.Answer, error)) (pawl.Answer, bool, error) {
	return s.Engine.Idempotent(ctx, k, func(within context.Context, svc pawl.Service) (*pawl.Answer, error) {
		a, err := run(within, svc)
		if s.stop != nil && a == nil {
			s.stop()
			<-ctx.Done()
			s.stop = nil
		}
		return a, err
	})
}

// A stop between a try that finds nothing and the look at the key hides no stored answer.
func TestAStopHidesNoStoredAnswer(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		for stored, want := range map[bool]int{true: 1, false: 0} {
			stopping, stop := context.WithCancel(t.Context())
			defer stop()
			svc := &stopsAfter{Engine: p.Engine}
			url := listen(t, mcp.New(svc, mcp.Options{Log: quiet, Stopping: stopping}).HTTP())
			checkout := func() reply {
				return rpc{T: t, url: url}.keyed("tools/call", "work_checkout",
					args{"name": "work_checkout", "arguments": args{"worker_id": "w", "wait_seconds": 10}}, fmt.Sprint(stored))
			}
			if stored {
				pawltest.Must[pawl.Task](t)(pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"}))
				checkout()
			}
			svc.stop = stop
			r := checkout()
			if replayed := r.Result.Meta[mcp.ReplayedMeta] == true; replayed != stored || r.Result.IsError ||
				len(r.Result.StructuredContent.Items) != want {
				t.Errorf("stored %v: %+v", stored, r)
			}
		}
	})
}

// holdsOn is an engine whose database holds the key of a call that was cut short for some time longer.
type holdsOn struct {
	*engine.Engine
	looks int
}

func (h *holdsOn) Idempotent(ctx context.Context, k pawl.KeyBegin,
	run func(context.Context, pawl.Service) (*pawl.Answer, error)) (pawl.Answer, bool, error) {
	if h.looks++; h.looks > 1 && h.looks < 5 {
		return pawl.Answer{}, false, pawl.ErrKeyInFlight
	}
	return h.Engine.Idempotent(ctx, k, run)
}

// A waiting checkout with a key is empty when the server stops, also while the database still holds its key.
func TestAStopWaitsForTheKeyOfItsCall(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	stopping, stop := context.WithCancel(t.Context())
	defer stop()
	svc := &holdsOn{Engine: p.Engine}
	gate := access.New(access.Options{})
	srv := httptest.NewServer(mcp.New(svc, mcp.Options{Log: quiet, Gate: gate, Stopping: stopping}).HTTP())
	defer srv.Close()
	time.AfterFunc(200*time.Millisecond, stop)
	r := rpc{T: t, url: srv.URL}.keyed("tools/call", "work_checkout",
		args{"name": "work_checkout", "arguments": args{"worker_id": "w", "wait_seconds": 50}}, "k")
	if r.Result.IsError || svc.looks != 5 {
		t.Errorf("after %d looks: %+v", svc.looks, r)
	}
}
