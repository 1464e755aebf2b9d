package server_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// A server whose namespace has left says where it is, over HTTP and to the client in Go. Other namespaces are served.
func TestAServerSaysWhereANamespaceIs(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := httptest.NewServer(server.New(p.Service, server.Options{}))
		t.Cleanup(srv.Close)
		team := pawl.As(t.Context(), pawl.Caller{Namespace: "team"})
		task, err := pawl.Create(team, p.Service, pawl.NewTask{Type: "a"})
		if err != nil {
			t.Fatal(err)
		}
		to := pawltest.OpenNew(t, p.Database, engine.Options{})
		if _, err := p.Engine.Relocate(t.Context(), to.Engine, engine.Move{Namespace: "team", URL: "https://there.example"}); err != nil {
			t.Fatal(err)
		}
		for _, ask := range [][3]string{{"GET", "/v1/tasks/" + task.ID, ""}, {"POST", "/v1/tasks", `{"type":"b"}`}} {
			r, err := http.NewRequest(ask[0], srv.URL+ask[1], strings.NewReader(ask[2]))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Pawl-Namespace", "team")
			resp, err := srv.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			var problem struct{ Code, URL string }
			err = json.NewDecoder(resp.Body).Decode(&problem)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusGone || problem.Code != "moved" || problem.URL != "https://there.example" {
				t.Errorf("%s %s: %d %+v %v", ask[0], ask[1], resp.StatusCode, problem, err)
			}
		}
		c := client.New(srv.URL, "")
		var moved *pawl.Error
		if _, err := c.GetTask(team, task.ID); !errors.As(err, &moved) || moved.Code != pawl.CodeMoved || moved.URL != "https://there.example" {
			t.Errorf("the client: %v", err)
		}
		if _, err := pawl.Create(t.Context(), client.New(srv.URL, ""), pawl.NewTask{Type: "b"}); err != nil {
			t.Errorf("another namespace: %v", err)
		}
	})
}
