package dashboard_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// An open page is told of a change, and what it reads then has the change.
func TestHints(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		h.p.Create(pawl.NewTask{Type: "a"})
		req, err := http.NewRequestWithContext(t.Context(), "GET", h.srv.URL+"/ui/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := h.browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		lines := make(chan string)
		go func() {
			for in := bufio.NewScanner(res.Body); in.Scan(); {
				if strings.HasPrefix(in.Text(), "event:") {
					lines <- in.Text()
				}
			}
		}()
		<-lines // the first look
		again := func() page { return h.send("GET", "/ui/tasks", nil, "Pawl-Automatic", "1") }
		h.hasNot(again(), "a new one")
		h.p.Create(pawl.NewTask{Type: "a", Title: "a new one"})
		select {
		case got := <-lines:
			if got != "event: changed" {
				t.Errorf("the hint is %q", got)
			}
		case <-time.After(time.Minute): // the time between hints grows with the time that pages take
			t.Fatal("no hint came")
		}
		got := again()
		h.has(got, 200, "a new one", `<main id="main"`)
		h.hasNot(got, "<html")
	})
}

// Pages that show the same are read once; the rights of a caller are part of what is the same.
func TestFragmentsAreShared(t *testing.T) {
	var reads atomic.Int64
	p := pawltest.OpenWith(t, pawltest.SQLite, engine.Options{Statement: func(string) { reads.Add(1) }})
	h := open(t, p, false)
	h.p.Create(pawl.NewTask{Type: "a", Title: "a title"})
	again := func() page { return h.send("GET", "/ui/tasks", nil, "Pawl-Automatic", "1") }
	h.has(again(), 200, "a title")
	before := reads.Load()
	for range 20 {
		h.has(again(), 200, "a title")
	}
	if reads.Load() != before {
		t.Errorf("20 equal pages made %d statements", reads.Load()-before)
	}
	h.has(h.send("GET", "/ui/tasks?type=b", nil, "Pawl-Automatic", "1"), 200)
	if reads.Load() == before {
		t.Error("another page made no statement")
	}
	before = reads.Load()
	h.has(h.send("GET", "/ui/tasks", nil, "Pawl-Automatic", "fresh"), 200, "a title")
	if reads.Load() == before {
		t.Error("a page that asks for what is fresh made no statement")
	}
	h.post("/ui/namespace", "namespace", "other")
	h.hasNot(again(), "a title")
}

// A user has a bounded number of open pages that are told of changes; pages of others are told too.
func TestStreamsOfAUserAreBounded(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := open(t, p, true)
	h.has(h.login(pawl.NewAPIKey{Name: "ann", Roles: []string{"reader"}}), 200)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	stream := func() int {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.srv.URL+"/ui/live", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := h.browser.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { res.Body.Close() })
		return res.StatusCode
	}
	for range 50 {
		if got := stream(); got != 200 {
			t.Fatal(got)
		}
	}
	if got := stream(); got != http.StatusServiceUnavailable {
		t.Errorf("one more: %d", got)
	}
	h.has(h.login(pawl.NewAPIKey{Name: "bob", Roles: []string{"reader"}}), 200)
	if got := stream(); got != 200 {
		t.Errorf("of another user: %d", got)
	}
}
