package server_test

import (
	"fmt"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// statements records the SQL that the calls of a test run, and the stacks from which it is
// run.
type statements struct {
	mu     sync.Mutex
	texts  []string
	stacks [][]string
}

func (s *statements) take() (texts []string, stacks [][]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	texts, stacks = s.texts, s.stacks
	s.texts, s.stacks = nil, nil
	return texts, stacks
}

func (s *statements) told(query string) {
	pcs := make([]uintptr, 200)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	var stack []string
	for more := true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		stack = append(stack, f.Function)
	}
	stack = ours(stack)
	if !slices.ContainsFunc(stack, ofServer) { // another goroutine carries it out
		stack = append(stack, append([]string{"(the goroutine that waits)"}, waiting()...)...)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts, s.stacks = append(s.texts, query), append(s.stacks, stack)
}

const module = "github.com/pawl-work/pawl/"

func ofServer(f string) bool { return strings.HasPrefix(f, "server.") }

// ours returns the functions of this module in a stack, without those that record the SQL.
func ours(stack []string) (out []string) {
	for _, f := range stack {
		short, found := strings.CutPrefix(f, module)
		if found && !strings.Contains(f, "toldTx") && !strings.Contains(f, "server_test.") && !strings.Contains(f, ").statements.func") {
			out = append(out, short)
		}
	}
	return out
}

// waiting returns the stack of the goroutine in which a request came in.
func waiting() (out []string) {
	all := make([]byte, 1<<20)
	for one := range strings.SplitSeq(string(all[:runtime.Stack(all, true)]), "\n\n") {
		var stack []string
		for line := range strings.SplitSeq(one, "\n") {
			if i := strings.LastIndex(line, "("); i > 0 && line[0] != '\t' && !strings.HasPrefix(line, "created by") {
				stack = append(stack, line[:i])
			}
		}
		if stack = ours(stack); slices.ContainsFunc(stack, ofServer) && len(stack) > len(out) {
			out = stack
		}
	}
	return out
}

// eachServer runs a test on every database, with a server whose SQL is recorded.
func eachServer(t *testing.T, fn func(t *testing.T, srv *httptest.Server, p *pawltest.Pawl, s *statements)) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) { // one after the other: the stacks of all goroutines are read
			s := &statements{}
			p := pawltest.OpenNew(t, which, engine.Options{Statement: s.told}) // without the functions of the pool
			fn(t, serve(t, p.Service, server.Options{}), p, s)
		})
	}
}

// claimed creates a task and claims its item. It returns the path of the item's verbs and the
// members of its lease.
func claimed(t *testing.T, srv *httptest.Server, typ string) (path, fence string) {
	t.Helper()
	task := ask(t, srv, "POST", "/v1/tasks", `{"type":"`+typ+`","payload":[1]}`).str("id")
	item := ask(t, srv, "POST", "/v1/claims", `{"worker_id":"w","task_id":"`+task+`"}`).items()[0]
	return "/v1/items/" + item["id"].(string), `"worker_id":"w","attempt":1`
}

// The single form of a verb on an item answers with the item from the statements of the verb.
// None of them reads the item afterwards.
func TestSingleFormsReadNoItemAfterwards(t *testing.T) {
	eachServer(t, func(t *testing.T, srv *httptest.Server, p *pawltest.Pawl, s *statements) {
		for name, def := range map[string]string{
			"judged": `{"acceptance":true,"approval":{"mode":"manual"}}`,
			"free":   `{"acceptance":true}`,
			"ruled":  `{"acceptance":true,"approval":{"mode":"auto","when":{"required":["m"]}}}`,
			"built":  `{"acceptance":true,"parts":[{"key":"a"}],"apply":{"mode":"item"}}`,
		} {
			if r := ask(t, srv, "PUT", "/v1/types/"+name, def); r.StatusCode != 201 {
				t.Fatal(r.text)
			}
		}
		for _, c := range []struct{ verb, typ, rest string }{
			{"progress", "a", `,"progress":5,"stage":"half"`},
			{"complete", "a", `,"result":{"n":1}`},
			{"fail", "a", `,"error":"no"`},
			{"release", "a", ""},
			{"suspend", "a", `,"until":"2027-01-01T00:00:00Z"`},
			{"suspend", "a", `,"signal":"s"`},
			{"submit", "judged", `,"result":{"n":1}`},
			{"submit", "free", `,"result":{"n":1}`},
			{"submit", "ruled", `,"result":{"n":1}`},
			{"submit", "ruled", `,"result":{"m":1}`},
			{"finalize", "built", ""},
			{"revoke_lease", "a", ""},
		} {
			path, fence := claimed(t, srv, c.typ)
			if c.verb == "finalize" {
				if r := ask(t, srv, "POST", path+"/parts", "{"+fence+`,"key":"a","payload":1}`); r.StatusCode != 200 && r.StatusCode != 201 {
					t.Fatal(r.text)
				}
			}
			if c.verb == "revoke_lease" {
				fence = `"attempt":1`
			}
			s.take()
			r := ask(t, srv, "POST", path+":"+c.verb, "{"+fence+c.rest+"}")
			if r.StatusCode != 200 || r.str("state") == "" || r.json["input"] == nil {
				t.Errorf("%s: %s", c.verb, r.text)
			}
			texts, _ := s.take()
			wrote, read := false, 0
			for _, q := range texts {
				if writes(q) {
					if wrote = true; c.typ == "ruled" || c.typ == "built" { // the step that writes this has read items
						read = 0
					}
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
	return slices.ContainsFunc([]string{"INSERT INTO", "DELETE FROM", "UPDATE pawl."},
		func(verb string) bool { return strings.Contains(query, verb) })
}

// maxDepth is how many functions of this module a complete over HTTP may pass through on its
// way to SQL. It may only fall.
const maxDepth = 15

// maxKeyedDepth is maxDepth of a call with an idempotency key, and maxKeyDepth that of the statements which begin the key
// and keep the answer. They may only fall.
const maxKeyedDepth, maxKeyDepth = 14, 20

// A complete over HTTP reaches SQL in at most maxDepth functions, with an idempotency key in maxKeyedDepth. If a group of calls is
// carried out in a goroutine of its own, both sides count.
func TestDepthOfACompleteAtItsSQL(t *testing.T) {
	eachServer(t, func(t *testing.T, srv *httptest.Server, p *pawltest.Pawl, s *statements) {
		for _, how := range []string{"single", "batch", "keyed"} {
			path, fence := claimed(t, srv, "a")
			id := strings.TrimPrefix(path, "/v1/items/")
			body := "{" + fence + `,"result":1}`
			path += ":complete"
			headers, most := []string(nil), maxDepth
			switch how {
			case "keyed":
				headers, most = []string{"Idempotency-Key", "key"}, maxKeyedDepth
			case "batch":
				path, body = "/v1/items:complete", fmt.Sprintf(`{"items":[{"id":%q,%s,"result":1}]}`, id, fence)
			}
			s.take()
			if r := ask(t, srv, "POST", path, body, headers...); r.StatusCode != 200 {
				t.Fatal(r.text)
			}
			texts, stacks := s.take()
			for i, stack := range stacks {
				n := len(slices.DeleteFunc(slices.Clone(stack), func(f string) bool { return strings.HasPrefix(f, "(") }))
				t.Logf("%s: statement %d of %d (%.40q…) at %d functions:\n\t%s", path, i+1, len(texts), texts[i], n, strings.Join(stack, "\n\t"))
				limit := most
				if strings.Contains(texts[i], "idempotency_keys") {
					limit = maxKeyDepth
				}
				if n > limit {
					t.Errorf("%s reaches SQL in %d functions, more than %d", path, n, limit)
				}
			}
		}
	})
}

// maxApprove is how many statements an approve of a task of one item may send, with those that read its answer. It may
// only fall.
var maxApprove = map[string]int{"manual": 11, "free": 10, "item": 15}

// An approve sends few statements: each event, and each state of its items, is not a statement of its own.
func TestStatementsOfAnApprove(t *testing.T) {
	eachServer(t, func(t *testing.T, srv *httptest.Server, p *pawltest.Pawl, s *statements) {
		for name, def := range map[string]string{
			"manual": `{"approval":{"mode":"manual"}}`,
			"free":   `{"approval":{"mode":"manual","not_by_requester":false,"not_by_worker":false}}`,
			"item":   `{"approval":{"mode":"manual"},"apply":{"mode":"item"}}`,
		} {
			ask(t, srv, "PUT", "/v1/types/"+name, def)
			for round := range 2 { // the first one reads what is remembered
				path, fence := claimed(t, srv, name)
				task := ask(t, srv, "POST", path+":submit", "{"+fence+`,"result":{"n":1}}`).str("task_id")
				s.take()
				r := ask(t, srv, "POST", "/v1/tasks/"+task+":approve", "{}")
				if r.StatusCode != 200 || r.str("state") != "completed" && r.str("state") != "approved" {
					t.Error(r.text)
				}
				if texts, _ := s.take(); round > 0 && len(texts) > maxApprove[name] {
					t.Errorf("%s: %d statements instead of at most %d:\n%s", name, len(texts), maxApprove[name], strings.Join(texts, "\n--\n"))
				}
			}
		}
	})
}
