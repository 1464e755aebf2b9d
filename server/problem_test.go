package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// broken answers every read of a task with one error.
type broken struct {
	pawl.Service
	err error
}

func (b broken) GetTask(context.Context, string) (pawl.Task, error) {
	if b.err == nil {
		panic("a bug")
	}
	return pawl.Task{}, b.err
}

func (b broken) CancelTasks(context.Context, []pawl.TaskCall) ([]pawl.Result[pawl.Task], error) {
	return []pawl.Result[pawl.Task]{{Err: b.err}}, nil
}

// Every code of the table has its status, and the members of its error are sent.
func TestErrorsAreProblems(t *testing.T) {
	for _, info := range pawl.Errors {
		err := &pawl.Error{Code: info.Code, Op: "get", Message: "so it is", RetryAfter: 1200 * time.Millisecond}
		// its answers are not those of the route
		srv := start(t, server.New(broken{err: fmt.Errorf("wrapped: %w", err)}, server.Options{Log: slog.New(slog.DiscardHandler)}))
		r := ask(t, srv, "GET", "/v1/tasks/tsk_1", "")
		if r.StatusCode != info.HTTP || r.str("code") != string(info.Code) || r.str("title") == "" || r.Header.Get("Retry-After") != "2" {
			t.Errorf("%s: %s %s, Retry-After %q", info.Code, r.Status, r.text, r.Header.Get("Retry-After"))
		}
		if sent := r.str("detail") == "so it is"; sent == (info.Code == pawl.CodeInternal) || r.str("detail") == "" {
			t.Errorf("%s: detail is %q", info.Code, r.str("detail"))
		}
	}
}

func TestConflictsAndLostLeasesCarryTheirState(t *testing.T) {
	for _, c := range []struct {
		err  *pawl.Error
		want string
	}{
		{&pawl.Error{Code: pawl.CodeConflict, State: "completed", Allowed: []string{}}, `"state":"completed","allowed":[]`},
		{&pawl.Error{Code: pawl.CodeConflict, State: "cancelled"}, `"state":"cancelled","allowed":[]`},
		{&pawl.Error{Code: pawl.CodeConflict, State: "failed", Allowed: []string{"retry", "bury"}},
			`"state":"failed","allowed":["retry","bury"]`},
		{&pawl.Error{Code: pawl.CodeLeaseLost, Reason: "taken", State: "leased", Holder: "w2", Attempt: 2},
			`"state":"leased","holder":"w2","attempt":2,"reason":"taken"`},
		{&pawl.Error{Code: pawl.CodeLeaseLost, Reason: "taken", State: "queued"}, `"state":"queued","holder":"","attempt":0,"reason":"taken"`},
	} {
		srv := serve(t, broken{err: c.err}, server.Options{})
		single := ask(t, srv, "POST", "/v1/tasks/tsk_1:cancel", "")
		if single.StatusCode != 409 || !strings.Contains(single.text, c.want) {
			t.Errorf("single: %s %s, want %s", single.Status, single.text, c.want)
		}
		several := ask(t, srv, "POST", "/v1/tasks:cancel", `{"items":[{"task_id":"tsk_1"}]}`)
		if several.StatusCode != 200 || !strings.Contains(several.text, `"status":409,"error":{`) || !strings.Contains(several.text, c.want) {
			t.Errorf("batch: %s %s, want %s", several.Status, several.text, c.want)
		}
	}
}

// Internal errors are logged with their detail and answered without it.
func TestInternalErrorsAreLoggedAndNotSent(t *testing.T) {
	for name, err := range map[string]error{
		"a stranger's error": errors.New("secret"),
		"our own":            &pawl.Error{Code: pawl.CodeInternal, Message: "secret", Err: errors.New("secret too")},
		"a panic":            nil,
	} {
		var log bytes.Buffer
		srv := serve(t, broken{err: err}, server.Options{Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
		r := ask(t, srv, "GET", "/v1/tasks/tsk_1", "", "X-Request-Id", "find-me")
		srv.Close()
		if r.StatusCode != 500 || r.str("code") != "internal" || strings.Contains(r.text, "secret") || strings.Contains(r.text, "a bug") {
			t.Errorf("%s: %s %s", name, r.Status, r.text)
		}
		for _, want := range []string{"internal error", "request_id=find-me", "status=500", "route=/v1/tasks/{id}"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: the log has no %q:\n%s", name, want, log.String())
			}
		}
		if !strings.Contains(log.String(), "secret") && !strings.Contains(log.String(), "a bug") {
			t.Errorf("%s: the log has no detail:\n%s", name, log.String())
		}
	}
}

// The stored answer of a call is no error: the verb that stops for it is neither logged nor counted.
func TestAReplayIsNoError(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		var log bytes.Buffer
		srv := serve(t, p.Service, server.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
		var first reply
		for i, replayed := range []string{"", "true"} {
			r := ask(t, srv, "POST", "/v1/signals:batch", `{"items":[{"name":"a"}]}`, "Idempotency-Key", "k")
			if i == 0 {
				first = r
			}
			if r.StatusCode != 200 || r.Header.Get("Idempotency-Replayed") != replayed || r.text != first.text {
				t.Errorf("%s %v %s", r.Status, r.Header, r.text)
			}
		}
		for line := range strings.Lines(ask(t, srv, "GET", "/metrics", "").text) {
			if strings.HasPrefix(line, "pawl_errors_total") && !strings.HasSuffix(line, " 0\n") {
				t.Error(line)
			}
		}
		srv.Close()
		if strings.Contains(log.String(), "level=ERROR") {
			t.Error(log.String())
		}
	})
}
