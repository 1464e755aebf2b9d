package client_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/internal/cost"
)

// FuzzAnswers checks that, whatever a server sends, the client returns an answer or one of its
// own errors, without a panic.
func FuzzAnswers(f *testing.F) {
	f.Add(200, "application/json", `{"id":"tsk_1","payload":1}`)
	f.Add(409, "application/problem+json", `{"code":"lease_lost","reason":"taken","attempt":-1}`)
	f.Add(502, "text/html", `<html>`)
	f.Add(200, "application/json", `{"results":[{"status":200},{"error":{}}]}`)
	f.Fuzz(func(t *testing.T, status int, kind, body string) {
		if status < 200 || status > 599 {
			return
		}
		c := client.NewWith("http://pawl.example", "pk_1", client.Options{HTTP: &http.Client{Transport: answer{status, kind, body}}})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond) // it waits before it asks again
		defer cancel()
		var err error
		cost.Check(t, len(body), func() { _, err = c.GetTask(ctx, "tsk_1") })
		if err != nil && pawl.CodeOf(err) == "" {
			t.Fatal(err)
		}
		if rs, err := c.CancelTasks(ctx, []pawl.TaskCall{{TaskID: "a"}, {TaskID: "b"}}); err == nil && len(rs) != 2 {
			t.Fatalf("%d answers", len(rs))
		}
	})
}

// answer is a server that answers every request in the same way.
type answer struct {
	status     int
	kind, body string
}

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{
		Status: fmt.Sprint(a.status, " ", http.StatusText(a.status)), StatusCode: a.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {a.kind}, "Retry-After": {"0"}}, Body: io.NopCloser(strings.NewReader(a.body)),
		ContentLength: int64(len(a.body)), Request: r,
	}, nil
}
