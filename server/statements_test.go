package server_test

import (
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// statements keeps what SQL the calls of a test come to.
type statements struct {
	mu    sync.Mutex
	texts []string
}

func (s *statements) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts := s.texts
	s.texts = nil
	return texts
}

func (s *statements) told(query string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts = append(s.texts, query)
}

// eachServer runs a test on every database, with a server that tells of its SQL.
func eachServer(t *testing.T, fn func(t *testing.T, srv *httptest.Server, p *pawltest.Pawl, s *statements)) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			s := &statements{}
			p := pawltest.OpenWith(t, which, engine.Options{Statement: s.told})
			fn(t, serve(t, p.Service, server.Options{}), p, s)
		})
	}
}

// claimed makes a task and claims its item; it answers with the path of the item's verbs
// and the members of its lease.
func claimed(t *testing.T, srv *httptest.Server, typ string) (path, fence string) {
	t.Helper()
	task := ask(t, srv, "POST", "/v1/tasks", `{"type":"`+typ+`","payload":[1]}`).str("id")
	item := ask(t, srv, "POST", "/v1/claims", `{"worker_id":"w","task_id":"`+task+`"}`).items()[0]
	return "/v1/items/" + item["id"].(string), `"worker_id":"w","attempt":1`
}

// The single form of a verb on an item answers with the item from the statements of
// the verb: none of them reads the item after it.
func TestSingleFormsReadNoItemAfterwards(t *testing.T) {
	eachServer(t, func(t *testing.T, srv *httptest.Server, p *pawltest.Pawl, s *statements) {
		if r := ask(t, srv, "PUT", "/v1/types/judged", `{"acceptance":true,"approval":{"mode":"manual"}}`); r.StatusCode != 201 {
			t.Fatal(r.text)
		}
		for _, c := range []struct{ verb, typ, rest string }{
			{"progress", "a", `,"progress":5,"stage":"half"`},
			{"complete", "a", `,"result":{"n":1}`},
			{"fail", "a", `,"error":"no"`},
			{"release", "a", ""},
			{"suspend", "a", `,"until":"2027-01-01T00:00:00Z"`},
			{"suspend", "a", `,"signal":"s"`},
			{"submit", "judged", `,"result":{"n":1}`},
			{"revoke_lease", "a", ""},
		} {
			path, fence := claimed(t, srv, c.typ)
			if c.verb == "revoke_lease" {
				fence = `"attempt":1`
			}
			s.take()
			r := ask(t, srv, "POST", path+":"+c.verb, "{"+fence+c.rest+"}")
			if r.StatusCode != 200 || r.str("state") == "" || r.json["input"] == nil {
				t.Errorf("%s: %s", c.verb, r.text)
			}
			texts := s.take()
			wrote, read := false, 0
			for _, q := range texts {
				if writes(q) {
					wrote = true
				} else if wrote && strings.Contains(q, "item_rows") {
					read++
				}
			}
			t.Logf("%s%s: %d statements, %d of them read an item after a write", c.verb, c.rest, len(texts), read)
			if read > 0 {
				t.Errorf("%s reads its item after it:\n%s", c.verb, strings.Join(texts, "\n--\n"))
			}
		}
	})
}

func writes(query string) bool {
	return slices.ContainsFunc([]string{"INSERT INTO", "DELETE FROM", "UPDATE pawl."}, func(verb string) bool { return strings.Contains(query, verb) })
}
