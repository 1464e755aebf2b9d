package server_test

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
)

// A waiting call does not keep the stack that led to it, because thousands of calls wait.
func TestWaitingIsShallow(t *testing.T) {
	h := open(t)
	for where, call := range map[string]func(context.Context) (*http.Request, error){
		"queue.(*Queues).Wait": func(ctx context.Context) (*http.Request, error) {
			r, err := http.NewRequestWithContext(ctx, "POST", h.srv.URL+"/v1/claims", strings.NewReader(`{"worker_id":"w","wait_seconds":60}`))
			if err == nil {
				r.Header.Set("Content-Type", "application/json")
			}
			return r, err
		},
		"server.(*server).followEvents": func(ctx context.Context) (*http.Request, error) {
			r, err := http.NewRequestWithContext(ctx, "GET", h.srv.URL+"/v1/events", nil)
			if err == nil {
				r.Header.Set("Accept", "text/event-stream")
			}
			return r, err
		},
	} {
		ctx, gone := context.WithTimeout(t.Context(), time.Minute)
		req, err := call(ctx)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			if res, err := http.DefaultClient.Do(req); err == nil {
				<-ctx.Done()
				res.Body.Close()
			}
		}()
		stack := ""
		for stack == "" && ctx.Err() == nil {
			time.Sleep(10 * time.Millisecond)
			all := make([]byte, 1<<20)
			for one := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
				if strings.Contains(one, where) {
					stack = one
				}
			}
		}
		if stack == "" || strings.Contains(stack, "huma") {
			t.Errorf("%s waits at\n%s", where, stack)
		}
		gone()
	}
}
