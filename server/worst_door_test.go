package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/pawltest"
)

// pathOf returns the path of a route or page with ids in it.
func pathOf(path string, ids map[string]string) string {
	id := "a"
	for part, of := range map[string]string{"/tasks/": ids["task"], "/items/": ids["item"], "/messages/": ids["message"],
		"/inbound/": "code"} {
		if strings.Contains(path, part) && of != "" {
			id = of
		}
	}
	return strings.NewReplacer("{id}", id, "{type}", "a", "{verb}", "cancel", "{$}", "").Replace(path)
}

// No route takes more than its kind may, whatever the worst known requests send.
func TestTheWorstRequestOfEveryRoute(t *testing.T) {
	eachDoors(t, func(d *doors) {
		for _, r := range api.Routes {
			if r.Method == http.MethodGet {
				for _, query := range []string{"?limit=1000", "?limit=1000&all=true&include=parts", "?q=" + strings.Repeat("x", 4000)} {
					w, s := d.send(r.Method, pathOf(r.Path, d.ids)+query, "")
					d.check(r.Name, query[:min(len(query), 30)], len(query), 1, w, s, 0)
				}
				continue
			}
			for what, b := range d.worst(r) {
				if b.calls == 0 && d.p.Database == pawltest.Postgres { // no call reaches the database
					continue
				}
				path, before, rows := pathOf(r.Path, d.target()), 0, 0
				if b.calls > 0 {
					before = d.rows()
				}
				w, s := d.send(r.Method, path, b.text)
				if b.calls > 0 {
					rows = d.rows() - before
				}
				d.check(r.Name, what, len(b.text), b.calls, w, s, rows)
			}
		}
	})
}

// No page and form of the dashboard takes more than its kind may.
func TestTheWorstRequestOfEveryPage(t *testing.T) {
	eachDoors(t, func(d *doors) {
		for _, name := range pagesOfDashboard(d.T) {
			path, post := strings.CutPrefix(name, "POST:")
			if kindOf(d.T, name) != "form" {
				w, s := d.send(http.MethodGet, pathOf(path, d.ids)+"?limit=1000&q="+strings.Repeat("x", 4000), "")
				d.check(name, "a long query", 4000, 1, w, s, 0)
				continue
			}
			if !post {
				path += "a/pause"
			}
			form := "verb=cancel&" + strings.Repeat("id="+d.ids["item"]+"&", worstBody/40)
			before := d.rows()
			session := d.session
			w, s := d.send(http.MethodPost, pathOf(path, d.target()), form)
			d.check(name, "a form", len(form), 1, w, s, d.rows()-before)
			d.session = session
		}
	})
}

// No tool takes more than its kind may.
func TestTheWorstCallOfEveryTool(t *testing.T) {
	eachDoors(t, func(d *doors) {
		for _, r := range api.Routes {
			for _, tool := range r.Tools {
				for what, ids := range map[string]map[string]string{"a large task": d.ids, "the target": d.target()} {
					w, s := d.tool(tool.Name, fmt.Sprintf(`{"task_id":%q,"item_id":%q,"id":%q,"worker_id":"w","attempt":1,"limit":100}`,
						ids["task"], ids["item"], ids["task"]))
					d.check(tool.Name, what, 200, 1, w, s, 0)
					w, s = d.tool(tool.Name, fmt.Sprintf(`{"task_id":%q}`, ids["task"]))
					d.check(tool.Name, what+" alone", 100, 1, w, s, 0)
				}
				large := `{"type":"a","payload":[` + strings.Repeat(`{"":0},`, worstBody/7) + `1]}`
				before := d.rows()
				w, s := d.tool(tool.Name, large)
				d.check(tool.Name, "a large value", len(large), 1, w, s, d.rows()-before)
			}
		}
	})
}

func (d *doors) tool(name, arguments string) (*measured, spent) {
	d.Helper()
	if kindOf(d.T, name) == "wait" {
		arguments = strings.Replace(arguments, "{", `{"wait_seconds":0,`, 1)
	}
	params := `{"name":"` + name + `","arguments":` + arguments + `}`
	return d.send(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":`+params+`}`)
}

// Before a caller is known, nothing of a body is read, except where the signature is over it.
func TestNothingIsReadBeforeTheCallerIsKnown(t *testing.T) {
	d := openDoors(t, pawltest.SQLite)
	d.key, d.session = "", ""
	body := strings.Repeat("x", 1<<20)
	ids := map[string]string{}
	for _, r := range api.Routes {
		w, _ := d.send(r.Method, pathOf(r.Path, ids), body)
		if kind := kindOf(t, r.Name); w.before > prices[kind].before || w.status < 400 || kind != "open" && kind != "webhook" && w.status != 401 {
			t.Errorf("%s: %d after %d bytes of the body", r.Name, w.status, w.before)
		}
	}
	if w, _ := d.send(http.MethodPost, "/mcp", body); w.status != 401 || w.before > 0 {
		t.Errorf("/mcp: %d after %d bytes", w.status, w.before)
	}
	for _, name := range pagesOfDashboard(t) {
		path, post := strings.CutPrefix(name, "POST:")
		method := http.MethodGet
		if post {
			method = http.MethodPost
		}
		if w, _ := d.send(method, pathOf(path, ids), body); w.before > prices[kindOf(t, name)].before {
			t.Errorf("%s: %d after %d bytes of the body", name, w.status, w.before)
		}
	}
}

// A key whose reads are under way gets no further one by any door; what does not read goes on, and
// so do the reads of other keys.
func TestWhatUsesTheReadsOfAKey(t *testing.T) {
	d := openDoors(t, pawltest.SQLite)
	d.ids = d.target()
	d.gate.BoundReads(1)
	pass, err := d.gate.Enter(access.From(t.Context(), "192.0.2.1:1"), strings.TrimPrefix(d.key, "Bearer "))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(access.With(t.Context(), pass))
	end, err := d.gate.BeginRead(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer end()
	defer cancel()
	full := make(chan struct{}, access.MostWaiting+1)
	for range access.MostWaiting + 1 {
		go func() {
			_, _ = d.gate.BeginRead(ctx) // waits until the test ends; the last one is refused
			full <- struct{}{}
		}()
	}
	<-full
	busy := func(w *measured) bool {
		return strings.Contains(string(w.body), "reads under way")
	}
	check := func(name string, w *measured) {
		t.Helper()
		if want := prices[kindOf(t, name)].reads; busy(w) != want {
			t.Errorf("%s: %d %.200s; it uses the reads of its key: %v", name, w.status, w.body, want)
		}
	}
	for _, r := range api.Routes {
		text := ""
		if r.Name == "get_keys" {
			text = `{"items":[{"key":"k"}]}`
		}
		w, _ := d.send(r.Method, pathOf(r.Path, d.ids), text)
		check(r.Name, w)
		for _, tool := range r.Tools {
			arguments, _ := json.Marshal(map[string]any{"task_id": d.ids["task"]})
			w, _ := d.tool(tool.Name, string(arguments))
			if kindOf(t, tool.Name) != "wait" {
				check(tool.Name, w)
			}
		}
	}
	for _, name := range pagesOfDashboard(t) {
		if kindOf(t, name) == "page" {
			w, _ := d.send(http.MethodGet, pathOf(name, d.ids), "")
			check(name, w)
		}
	}
	d.key = d.token()
	if w, _ := d.send(http.MethodGet, "/v1/tasks", ""); w.status != http.StatusOK {
		t.Errorf("another key: %d %.200s", w.status, w.body)
	}
}
