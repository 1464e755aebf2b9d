//go:build unix

package gate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/gate"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// childVariable has what a process of this test is to do; it stops at a point of an effect.
const childVariable = "PAWL_TEST_CRASH"

// The points at which a process stops. At the ones between it cannot be told whether it has paid.
const (
	beforeTheRow   = "before the row"
	afterTheRow    = "after the row"
	afterSending   = "after sending"
	afterTheAnswer = "after the answer"
	afterTheRecord = "after the record"
)

var crashPoints = []string{beforeTheRow, afterTheRow, afterSending, afterTheAnswer, afterTheRecord}

// The ways in which an unknown effect is resolved.
var resolutions = []string{"probe", "repetition", "person"}

// child is what a process does.
type child struct {
	URL, Schema string // of the database
	Upstream    string
	Gate        bool // it is a gate on the listener 3, or else a worker of one task
	TaskID      string
	Point       string
	Resolution  string
}

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		var c child
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			panic(err)
		}
		if err := c.run(); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	pawltest.Main(m)
}

func (c *child) run() error {
	ctx := context.Background()
	e, err := engine.OpenWith(ctx, c.URL, engine.Options{Schema: c.Schema, Log: quietly})
	if err != nil {
		return err
	}
	if !c.Gate {
		return c.work(ctx, e)
	}
	g, err := c.gate(&stopping{e, c.Point})
	if err != nil {
		return err
	}
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return http.Serve(l, g.Before(http.NotFoundHandler()))
}

// need returns a value, or ends the test.
var quietly = slog.New(slog.DiscardHandler)

// upstreams are the service in three forms.
func (c *child) gate(l gate.Ledger) (*gate.Gate, error) {
	return gate.New(gate.Options{Ledger: l, Lease: 1, Log: quietly, Upstreams: map[string]gate.Upstream{
		"probe":      {URL: c.Upstream + "/mail", KeyHeader: "Idempotency-Key", Probe: "/{key}"},
		"repetition": {URL: c.Upstream + "/charge", KeyHeader: "Idempotency-Key", Repeatable: true},
		"person":     {URL: c.Upstream + "/mail", KeyHeader: "Idempotency-Key"},
	}})
}

// stopping is a ledger whose process stops at a point.
type stopping struct {
	*engine.Engine
	point string
}

func (s *stopping) at(point string) {
	if s.point == point {
		os.Exit(1)
	}
}

func (s *stopping) OpenEffect(ctx context.Context, call pawl.OpenEffectCall) (pawl.OpenedEffect, error) {
	s.at(beforeTheRow)
	out, err := s.Engine.OpenEffect(ctx, call)
	s.at(afterTheRow)
	return out, err
}

func (s *stopping) EffectDone(ctx context.Context, id string, call pawl.EffectDoneCall) (pawl.EffectRecord, error) {
	s.at(afterTheAnswer)
	out, err := s.Engine.EffectDone(ctx, id, call)
	s.at(afterTheRecord)
	return out, err
}

// work runs the task's handler, which pays once and stops at the point.
func (c *child) work(ctx context.Context, svc pawl.Claimer) error {
	at := func(point string) {
		if c.Point == point {
			os.Exit(1)
		}
	}
	h := worker.Handle("pays", func(ctx context.Context, order string) (string, error) {
		at(beforeTheRow)
		out, err := pawl.Effect(ctx, "pay", c.options(), func(ctx context.Context, key string) (string, error) {
			at(afterTheRow)
			out, err := pay(ctx, c.Upstream+c.path(), order, key, c.Point)
			at(afterTheAnswer)
			return out, err
		})
		at(afterTheRecord)
		return out, err
	})
	return worker.RunWith(ctx, svc, worker.Options{TaskID: c.TaskID, LeaseSeconds: 1, Drain: c.Point == "", Logger: quietly}, h)
}

func (c *child) path() string {
	if c.Resolution == "repetition" {
		return "/charge"
	}
	return "/mail"
}

func (c *child) options() pawl.EffectOptions {
	switch c.Resolution {
	case "repetition":
		return pawl.EffectOptions{Repeatable: true}
	case "probe":
		return pawl.EffectOptions{Probe: func(ctx context.Context, key string) (pawl.Probed, error) {
			res, err := get(ctx, c.Upstream+"/mail/"+key)
			return pawl.Probed{Happened: res == "paid", Answer: res}, err
		}}
	}
	return pawl.EffectOptions{}
}

func get(ctx context.Context, url string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

// pay asks the service for a payment. The point is for the service, which may stop its caller.
func pay(ctx context.Context, url, order, key, point string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader([]byte(order)))
	if err != nil {
		return "", err
	}
	r.Header.Set("Idempotency-Key", key)
	r.Header.Set("X-Point", point)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

// bank counts payments by order. At /charge it recognises keys. It stops the process of an order when it is
// told so.
type bank struct {
	mu    sync.Mutex
	paid  map[string]int
	keys  map[string]bool
	kills map[string]func()
}

func (s *bank) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	order, key := string(body), r.Header.Get("Idempotency-Key")
	s.mu.Lock()
	if r.Method == http.MethodGet {
		known := s.keys[r.URL.Path[len("/mail/"):]]
		s.mu.Unlock()
		if !known {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprint(w, "paid")
		return
	}
	if !strings.HasPrefix(r.URL.Path, "/charge") || !s.keys[key] {
		s.paid[order]++
	}
	s.keys[key] = true
	kill := s.kills[order]
	s.mu.Unlock()
	if r.Header.Get("X-Point") == afterSending && kill != nil {
		kill()
		<-r.Context().Done()
		return
	}
	fmt.Fprint(w, "paid")
}

func (s *bank) of(order string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.paid[order]
}

// crash is one run: a process that stops, and what comes after it.
type crash struct {
	testing.TB
	child
	p     *pawltest.Pawl
	bank  *bank
	front string // a gate that does not stop
	task  pawl.Task
	order string
}

// start runs a process, and returns what waits for its end.
func (c *crash) start(files ...*os.File) (wait func()) {
	text, err := json.Marshal(c.child)
	if err != nil {
		c.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env, cmd.ExtraFiles = append(os.Environ(), childVariable+"="+string(text)), files
	if err := cmd.Start(); err != nil {
		c.Fatal(err)
	}
	c.bank.mu.Lock()
	c.bank.kills[c.order] = func() { _ = cmd.Process.Kill() }
	c.bank.mu.Unlock()
	limit := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	return func() { _ = cmd.Wait(); limit.Stop() }
}

// run makes the task, lets a process stop at the point, and carries the task to its end.
func (c *crash) run() {
	order := c.order
	if c.Gate {
		c.throughTheGate(order)
	} else {
		c.start()()
		c.Point = ""
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			if err := c.work(c.Context(), c.p.Engine); err != nil {
				c.Fatal(err)
			}
			if t := pawltest.Must[pawl.Task](c)(c.p.Engine.GetTask(c.Context(), c.task.ID)); t.State == pawl.TaskCompleted {
				break
			}
			c.decide(order)
		}
	}
}

// throughTheGate pays through a gate that stops, and then through another one.
func (c *crash) throughTheGate(order string) {
	l := pawltest.Must[[]pawl.Lease](c)(c.p.Engine.Claim(c.Context(), pawl.ClaimRequest{WorkerID: "w", TaskID: c.task.ID}))[0]
	listener := pawltest.Must[net.Listener](c)(net.Listen("tcp", "127.0.0.1:0"))
	f := pawltest.Must[*os.File](c)(listener.(*net.TCPListener).File())
	wait := c.start(f)
	f.Close()
	_, status := c.ask("http://"+listener.Addr().String(), l, order, c.Point)
	listener.Close()
	if status != 0 {
		c.Fatalf("the gate did not stop: %d", status)
	}
	wait()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		text, status := c.ask(c.front, l, order, "")
		if status == http.StatusOK {
			if text != "paid" && text != "null" {
				c.Errorf("the gate answers %s", text)
			}
			return
		}
		c.decide(order)
	}
	c.Fatal("it is not paid in the end")
}

func (c *crash) ask(base string, l pawl.Lease, order, point string) (string, int) {
	r := pawltest.Must[*http.Request](c)(http.NewRequestWithContext(c.Context(), http.MethodPost, base+"/gate/"+c.Resolution+"/",
		bytes.NewReader([]byte(order))))
	r.Header.Set("X-Point", point)
	r.Header.Set(gate.ItemHeader, l.ID)
	r.Header.Set(gate.WorkerHeader, l.WorkerID)
	r.Header.Set(gate.AttemptHeader, strconv.Itoa(l.Attempt))
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", 0
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return string(b), res.StatusCode
}

// decide is the person: who looks at what was paid.
func (c *crash) decide(order string) {
	list := pawltest.Must[pawl.List[pawl.EffectRecord]](c)(c.p.Engine.ListEffects(c.Context(), pawl.EffectFilter{TaskID: c.task.ID,
		States: []pawl.EffectState{pawl.EffectUnknown}}))
	if len(list.Items) == 0 || c.Resolution != "person" {
		return
	}
	outcome := pawl.DidNotHappen
	if c.bank.of(order) > 0 {
		outcome = pawl.Happened
	}
	_, err := c.p.Engine.ResolveEffect(c.Context(), list.Items[0].ID, pawl.ResolveEffectCall{Outcome: outcome})
	if err != nil && pawl.CodeOf(err) != pawl.CodeConflict {
		c.Fatal(err)
	}
}

// check compares what was paid with what the ledger says. It returns how long after the end of its sender's
// lease the effect was unknown; 0 = it was never.
func (c *crash) check(point string) time.Duration {
	if got := c.bank.of(c.order); got != 1 {
		c.Errorf("%s, %s, gate %v: paid %d times", point, c.Resolution, c.Gate, got)
	}
	list := pawltest.Must[pawl.List[pawl.EffectRecord]](c)(c.p.Engine.ListEffects(c.Context(), pawl.EffectFilter{TaskID: c.task.ID}))
	if len(list.Items) != 1 || list.Items[0].State != pawl.EffectDone {
		c.Errorf("%s, %s, gate %v: the effects are %+v", point, c.Resolution, c.Gate, list.Items)
	}
	undecidable := point != beforeTheRow && point != afterTheRecord
	events := pawltest.Must[pawl.List[pawl.Event]](c)(c.p.Engine.ListEvents(c.Context(), pawl.EventFilter{TaskID: c.task.ID, Asc: true}))
	var opened, unknown time.Time
	for _, e := range events.Items {
		switch {
		case e.Event == "effect_opened" && opened.IsZero():
			opened = e.CreatedAt
		case e.Event == "effect_unknown" && unknown.IsZero():
			unknown = e.CreatedAt
		}
	}
	if undecidable == unknown.IsZero() {
		c.Errorf("%s, %s, gate %v: it was unknown: %v", point, c.Resolution, c.Gate, !unknown.IsZero())
	}
	if unknown.IsZero() {
		return 0
	}
	return unknown.Sub(opened) - time.Second
}

// Processes that pay through the gate, and with pawl.Effect, stop at each point. Nothing is paid twice, and
// what cannot be told is unknown until a probe, a repetition or a person resolves it. PAWL_KILLS says how
// often processes stop, on each database.
func TestPaymentsOfProcessesThatStop(t *testing.T) {
	kills := len(crashPoints) * 2 * len(resolutions)
	if n, err := strconv.Atoi(os.Getenv("PAWL_KILLS")); err == nil {
		kills = n
	} else if os.Getenv("PAWL_TORTURE") != "" {
		kills = 10_000
	}
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which, engine.Options{Log: quietly})
			ctx, stop := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { _ = p.Engine.Run(ctx) })
			defer running.Wait()
			defer stop()
			s := &bank{paid: map[string]int{}, keys: map[string]bool{}, kills: map[string]func(){}}
			stub := httptest.NewServer(s)
			defer stub.Close()
			base := child{URL: p.URL, Schema: p.Schema, Upstream: stub.URL}
			g := pawltest.Must[*gate.Gate](t)(base.gate(p.Engine))
			front := httptest.NewServer(g.Before(http.NotFoundHandler()))
			defer front.Close()
			var all sync.WaitGroup
			room := make(chan struct{}, 6)
			var mu sync.Mutex
			latest := time.Duration(0)
			for n := range kills {
				room <- struct{}{}
				all.Go(func() {
					defer func() { <-room }()
					c := &crash{TB: t, child: base, p: p, bank: s, front: front.URL}
					c.Point, c.Gate = crashPoints[n%5], n/5%2 == 1
					c.Resolution = resolutions[n/10%3]
					c.order = fmt.Sprint("order ", n)
					c.task = pawltest.Must[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, pawl.NewTask{Type: "pays", MaxAttempts: 9,
						Payload: []byte(strconv.Quote(c.order))}))
					c.TaskID = c.task.ID
					point := c.Point
					c.run()
					late := c.check(point)
					mu.Lock()
					latest = max(latest, late)
					mu.Unlock()
				})
			}
			all.Wait()
			t.Logf("%d processes stopped; an effect was unknown at most %v after the first end of its sender's lease", kills, latest)
		})
	}
}
