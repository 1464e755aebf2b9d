package client_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/pawl-work/pawl"
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
		c := answering(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		})
		var err error
		cost.Check(t, len(body), func() { _, err = c.GetTask(context.Background(), "tsk_1") })
		if err != nil && pawl.CodeOf(err) == "" {
			t.Fatal(err)
		}
		if rs, err := c.CancelTasks(context.Background(), []pawl.TaskCall{{TaskID: "a"}, {TaskID: "b"}}); err == nil && len(rs) != 2 {
			t.Fatalf("%d answers", len(rs))
		}
	})
}
