package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// A read with wait_seconds is answered when its task has ended or failed, and has the same form
// as any other read.
func TestAReadWaitsForTheEndOfATask(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h, gate := withGate(t, p, access.Options{})
		key, token := h.key(pawl.NewAPIKey{Roles: []string{"reader"}, Payloads: true})
		for _, c := range []struct {
			name, query string
			end         func(pawl.Task)
			status      int
			says        []string
		}{
			{"completed", "&fields=state,version&include=result", func(task pawl.Task) { p.Complete(p.Claim(task.Type), `{"n":7}`) }, 200,
				[]string{`"state":"completed"`, `"payload":{"n":7}`}},
			{"failed", "", func(task pawl.Task) {
				l := p.Claim(task.Type)
				rs, err := p.Service.Fail(t.Context(), []pawl.FailCall{{Fence: l.Fence(), Error: pawl.Failure{Message: "no"}}})
				if err != nil || rs[0].Err != nil {
					t.Fatal(err, rs)
				}
			}, 200, []string{`"state":"failed"`, `"message":"no"`}},
			{"cancelled", "", func(task pawl.Task) {
				_, err := p.Service.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID}})
				p.OK(err)
			}, 200, []string{`"state":"cancelled"`}},
			{"deleted", "", func(task pawl.Task) { // the delete cancels it first, which is an end too
				_, err := p.Service.DeleteTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID, Force: true}})
				p.OK(err)
			}, 404, nil},
			{"key revoked", "", func(pawl.Task) {
				_, err := p.Engine.RevokeAPIKey(t.Context(), key.ID)
				p.OK(err)
			}, 401, []string{`"code":"unauthenticated"`}},
		} {
			task := p.Create(pawl.NewTask{Type: strings.ReplaceAll(c.name, " ", "."), MaxAttempts: 1})
			got := make(chan reply, 1)
			go func() { got <- h.ask(token, "GET", "/v1/tasks/"+task.ID+"?wait_seconds=60"+c.query, "") }()
			for ; gate.LongCalls(key.ID) < 1; time.Sleep(5 * time.Millisecond) {
				if len(got) > 0 {
					t.Fatalf("%s: answered before its end: %s", c.name, (<-got).text)
				}
			}
			at := time.Now()
			c.end(task)
			r := <-got
			if took := time.Since(at); took > 30*time.Second {
				t.Errorf("%s: answered after %s", c.name, took)
			}
			if c.name == "deleted" && strings.Contains(r.text, `"state":"cancelled"`) {
				continue
			}
			if r.StatusCode != c.status {
				t.Errorf("%s: %d %s", c.name, r.StatusCode, r.text)
			}
			for _, says := range c.says {
				if !strings.Contains(r.text, says) {
					t.Errorf("%s: %s does not have %s", c.name, r.text, says)
				}
			}
			if tag := r.Header.Get("ETag"); (tag != "") != (c.status == 200) {
				t.Errorf("%s: ETag %q", c.name, tag)
			}
			if c.status != 200 {
				continue
			}
			if again := h.ask(token, "GET", "/v1/tasks/"+task.ID+"?wait_seconds=60"+c.query, ""); again.text != r.text {
				t.Errorf("%s: an ended task: %s, after the wait %s", c.name, again.text, r.text)
			}
		}
	})
}

// A wait of another length is refused, a task that goes on is answered as it is when the time is
// over, and too many calls that wait are refused unless the task has ended.
func TestBoundsOfAReadThatWaits(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h, gate := withGate(t, p, access.Options{LongCallsPerKey: 1})
	key, token := h.key(pawl.NewAPIKey{Roles: []string{"reader"}})
	task, ended := p.Create(pawl.NewTask{Type: "t"}), p.Create(pawl.NewTask{Type: "ends"})
	p.Complete(p.Claim("ends"), `1`)
	for _, wait := range []string{"-1", "61", "x", "1.5", ""} {
		if r := h.ask(token, "GET", "/v1/tasks/"+task.ID+"?wait_seconds="+wait, ""); r.StatusCode != 400 && wait != "" {
			t.Errorf("wait_seconds=%s: %d %s", wait, r.StatusCode, r.text)
		}
	}
	if r := h.ask(token, "GET", "/v1/tasks/tsk_01ARZ3NDEKTSV4RRFFQ69G5FAV?wait_seconds=60", ""); r.StatusCode != 404 {
		t.Errorf("unknown: %d %s", r.StatusCode, r.text)
	}
	for _, wait := range []string{"0", "1"} {
		if r := h.ask(token, "GET", "/v1/tasks/"+task.ID+"?wait_seconds="+wait, ""); r.StatusCode != 200 || r.str("state") != "queued" ||
			r.Header.Get("Pawl-Payloads") != "hidden" || r.Header.Get("ETag") == "" {
			t.Errorf("wait_seconds=%s: %d %s", wait, r.StatusCode, r.text)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	gone := make(chan error, 1)
	go func() {
		_, err := client.New(h.srv.URL, strings.TrimPrefix(token, "Bearer ")).WaitTask(ctx, task.ID, 60)
		gone <- err
	}()
	for gate.LongCalls(key.ID) < 1 {
		select {
		case err := <-gone:
			t.Fatal(err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	if r := h.ask(token, "GET", "/v1/tasks/"+task.ID+"?wait_seconds=60", ""); r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
		t.Errorf("one more: %d %s", r.StatusCode, r.text)
	}
	if r := h.ask(token, "GET", "/v1/tasks/"+ended.ID+"?wait_seconds=60", ""); r.StatusCode != 200 || r.str("state") != "completed" {
		t.Errorf("of one that has ended: %d %s", r.StatusCode, r.text)
	}
	cancel()
	if err := <-gone; err == nil {
		t.Error("a caller that has gone has an answer")
	}
	for ; gate.LongCalls(key.ID) > 0; time.Sleep(5 * time.Millisecond) { // the call of one that has gone ends
	}
}

// A server that stops answers the reads that wait with their tasks as they are, and refuses new
// ones.
func TestAReadThatWaitsEndsWithTheServer(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	ctx, stop := context.WithCancel(t.Context())
	gate := access.New(access.Options{Keys: p.Engine, Required: true, Log: slog.New(slog.DiscardHandler)})
	h := &testServer{t, p, serve(t, p.Service, server.Options{Gate: gate, Stopping: ctx})}
	key, token := h.key(pawl.NewAPIKey{Roles: []string{"reader"}})
	task := p.Create(pawl.NewTask{Type: "t"})
	got := make(chan reply, 1)
	go func() { got <- h.ask(token, "GET", "/v1/tasks/"+task.ID+"?wait_seconds=60", "") }()
	for ; gate.LongCalls(key.ID) < 1; time.Sleep(5 * time.Millisecond) {
	}
	stop()
	if r := <-got; r.StatusCode != 200 || r.str("state") != "queued" {
		t.Errorf("%d %s", r.StatusCode, r.text)
	}
	if r := h.ask(token, "GET", "/v1/tasks/"+task.ID+"?wait_seconds=60", ""); r.StatusCode != 503 {
		t.Errorf("a new one: %d %s", r.StatusCode, r.text)
	}
}

// pawl.Await over HTTP is woken.
func TestAwaitOverHTTPIsWoken(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := serve(t, p.Service, server.Options{})
		task := p.Create(pawl.NewTask{Type: "t"})
		got := make(chan string, 1)
		go func() {
			ended, err := pawl.Await(t.Context(), client.New(srv.URL, ""), task.ID)
			got <- fmt.Sprint(ended.State, err)
		}()
		p.Complete(p.Claim("t"), `1`)
		if s := <-got; s != "completed<nil>" {
			t.Error(s)
		}
		if _, err := pawl.Await(t.Context(), client.New(srv.URL, ""), "tsk_none"); pawl.CodeOf(err) != pawl.CodeNotFound {
			t.Error(err)
		}
		brief, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		open := p.Create(pawl.NewTask{Type: "open"})
		if _, err := pawl.Await(brief, client.New(srv.URL, ""), open.ID); err != context.DeadlineExceeded {
			t.Error(err)
		}
	})
}
