package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
)

// The files in testdata/vectors are read by the tests of every client, in each language: what one
// of them means by an answer, all of them mean.

var updateVectors = flag.Bool("update", false, "write the hashes of testdata/vectors/canonical.json")

func vectors[T any](t *testing.T, name string) (out []T) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../testdata/vectors", name+".json"))
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil || len(out) == 0 {
		t.Fatal(name, err)
	}
	return out
}

func TestVectorsOfHashes(t *testing.T) {
	type vector struct {
		Name         string `json:"name"`
		JSON         string `json:"json"`
		Hash         string `json:"hash"`
		BeyondDouble bool   `json:"beyond_double,omitempty"` // JavaScript's numbers cannot hold it
	}
	all := vectors[vector](t, "canonical")
	for i, v := range all {
		got, err := pawl.HashOf(json.RawMessage(v.JSON))
		if err != nil {
			t.Errorf("%s: %v", v.Name, err)
		}
		if got != v.Hash && !*updateVectors {
			t.Errorf("%s: %s, want %s", v.Name, got, v.Hash)
		}
		all[i].Hash = got
	}
	if *updateVectors {
		data, err := json.MarshalIndent(all, "", " ")
		if err == nil {
			err = os.WriteFile("../testdata/vectors/canonical.json", append(data, '\n'), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// oneAnswer is a client of a server that gives one answer to every call.
func oneAnswer(t *testing.T, fn http.HandlerFunc) *client.Client {
	t.Helper()
	s := httptest.NewServer(fn)
	t.Cleanup(s.Close)
	return client.NewWith(s.URL, "", client.Options{Tries: 1})
}

func TestVectorsOfProblems(t *testing.T) {
	for _, v := range vectors[struct {
		Name        string
		Status      int
		ContentType string `json:"content_type"`
		RetryAfter  string `json:"retry_after"`
		Body        string
		Want        struct {
			Code                   pawl.Code
			Retryable              bool
			RetryAfter             float64 `json:"retry_after"`
			Pointer, State, Reason string
		}
	}](t, "problems") {
		c := oneAnswer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", v.ContentType)
			if v.RetryAfter != "" {
				w.Header().Set("Retry-After", v.RetryAfter)
			}
			w.WriteHeader(v.Status)
			_, _ = io.WriteString(w, v.Body)
		})
		_, err := c.GetTask(context.Background(), "tsk_1")
		var e *pawl.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: %v", v.Name, err)
			continue
		}
		pointer := ""
		if len(e.Fields) > 0 {
			pointer = e.Fields[0].Pointer
		}
		if e.Code != v.Want.Code || e.Code.Info().Retryable != v.Want.Retryable || e.RetryAfter.Seconds() != v.Want.RetryAfter ||
			pointer != v.Want.Pointer || e.State != v.Want.State || e.Reason != v.Want.Reason {
			t.Errorf("%s: %+v, want %+v", v.Name, e, v.Want)
		}
	}
}

func TestVectorsOfStreams(t *testing.T) {
	for _, v := range vectors[struct {
		Name     string
		Parts    []string
		Events   []string
		Position string
	}](t, "streams") {
		served := false
		c := oneAnswer(t, func(w http.ResponseWriter, r *http.Request) {
			if served { // the stream broke: it is asked for again behind what came whole
				if after := r.URL.Query().Get("after"); after != v.Position {
					t.Errorf("%s: asked again after %s, want %s", v.Name, after, v.Position)
				}
				w.Header().Set("Content-Type", "application/problem+json")
				w.WriteHeader(http.StatusNotFound)
				_, _ = io.WriteString(w, `{"code":"not_found","status":404,"title":"t","detail":"it is over"}`)
				return
			}
			served = true
			w.Header().Set("Content-Type", "text/event-stream")
			for _, part := range v.Parts {
				_, _ = io.WriteString(w, part)
				w.(http.Flusher).Flush()
				time.Sleep(5 * time.Millisecond)
			}
		})
		var got []string
		err := c.FollowEvents(context.Background(), pawl.EventFilter{}, func(_ pawl.FeedPosition, events []pawl.Event) error {
			for _, e := range events {
				got = append(got, e.ID)
			}
			return nil
		})
		if pawl.CodeOf(err) != pawl.CodeNotFound || !slices.Equal(got, v.Events) {
			t.Errorf("%s: %v, %v; want %v", v.Name, got, err, v.Events)
		}
	}
}

func TestVectorsOfTimes(t *testing.T) {
	for _, v := range vectors[struct {
		Text   string
		Micros int64
	}](t, "times") {
		at, err := time.Parse(time.RFC3339Nano, v.Text)
		if err != nil || at.UnixMicro() != v.Micros {
			t.Errorf("%s: %d %v, want %d", v.Text, at.UnixMicro(), err, v.Micros)
		}
	}
}

func TestVectorsOfCalls(t *testing.T) {
	for _, v := range vectors[struct {
		Name, Key, Namespace, Actor, ID string // the Go client has the id in the body, not in the path
		Headers                         map[string]string
	}](t, "calls") {
		asked := http.Header{}
		c := oneAnswer(t, func(w http.ResponseWriter, r *http.Request) {
			asked = r.Header
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"results":[{"status":200,"value":{"id":"x"}}]}`)
		})
		kind, id := "", ""
		if v.Actor != "" {
			kind, id = "user", "ana b"
		}
		caller := pawl.Caller{Namespace: v.Namespace, ActorType: kind, ActorID: id}
		if v.Namespace == "" {
			caller.Namespace = pawl.DefaultNamespace
		}
		ctx := client.WithKey(pawl.As(context.Background(), caller), v.Key)
		if _, err := c.CancelTasks(ctx, []pawl.TaskCall{{TaskID: v.ID}}); err != nil {
			t.Fatal(v.Name, err)
		}
		for name, want := range v.Headers {
			if got := asked.Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", v.Name, name, got, want)
			}
		}
	}
}

func TestVectorsOfClaims(t *testing.T) {
	for _, v := range vectors[struct {
		Name, Answer string
		IDs          []string
		Input        string
	}](t, "claims") {
		c := oneAnswer(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, v.Answer)
		})
		leases, err := c.Claim(context.Background(), pawl.ClaimRequest{WorkerID: "w1"})
		ids := make([]string, len(leases))
		for i, l := range leases {
			ids[i] = l.ID
		}
		if err != nil || !slices.Equal(ids, v.IDs) {
			t.Errorf("%s: %v %v, want %v", v.Name, ids, err, v.IDs)
		}
		if v.Input != "" && !jsonEqual(string(leases[0].Input), v.Input) {
			t.Errorf("%s: input %s, want %s", v.Name, leases[0].Input, v.Input)
		}
	}
}

// jsonEqual compares JSON with its numbers as they are written.
func jsonEqual(a, b string) bool {
	x, errX := pawl.HashOf(json.RawMessage(a))
	y, errY := pawl.HashOf(json.RawMessage(b))
	return errX == nil && errY == nil && x == y
}
