package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/pawltest"
)

// note is what an answer has in the place of a body.
type note struct {
	Bytes  int
	Begins string
	Read   args
}

// noteIn returns the note at a path of an answer.
func (a agent) noteIn(text string, path ...string) note {
	a.Helper()
	at := json.RawMessage(text)
	for _, name := range append(path, mcp.CutMember) {
		var list []json.RawMessage
		var object map[string]json.RawMessage
		if json.Unmarshal(at, &list) == nil && len(list) > 0 {
			at = list[0]
		}
		if json.Unmarshal(at, &object); object[name] == nil {
			a.Fatalf("%v: no %s in %.300s", path, name, at)
		}
		at = object[name]
	}
	var n note
	a.must(json.Unmarshal(at, &n))
	return n
}

// whole reads a body piece by piece, as its note says.
func (a agent) whole(n note) string {
	a.Helper()
	var text strings.Builder
	for in := maps.Clone(n.Read); ; {
		var next struct{ Next int }
		got := a.ok("work_read", in)
		text.WriteString(got.Text)
		a.must(json.Unmarshal([]byte(got.raw), &next))
		if got.Bytes != n.Bytes {
			a.Errorf("the whole has %d bytes, the note says %d", got.Bytes, n.Bytes)
		}
		if next.Next == 0 {
			return text.String()
		}
		in["offset"] = next.Next
	}
}

// large is a JSON value of about so many bytes that no two calls make alike.
func large(bytes int, seed string) map[string]any {
	return map[string]any{"of": seed, "lines": strings.Split(strings.Repeat("\"é\"\\ "+seed+"\n", bytes/(len(seed)+8)), "\n")}
}

func alike(t *testing.T, what, got string, want any) {
	t.Helper()
	var a, b any
	raw, _ := json.Marshal(want)
	if err := json.Unmarshal([]byte(got), &a); err != nil {
		t.Fatalf("%s: %v in %.300s", what, err, got)
	}
	_ = json.Unmarshal(raw, &b)
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	if !bytes.Equal(x, y) {
		t.Errorf("%s is not what was given: %.200s …", what, got)
	}
}

// Whatever is stored, an answer has at most 64 KiB, fits its tool's schema (call holds both) and
// names a way to all that it does not have.
func TestAnswersAreShort(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		payload := large(70<<10, "payload")
		task := a.ok("work_propose", args{"type": "big", "payload": payload}).Task.ID
		got := a.ok("work_get", args{"task_id": task})
		n := a.noteIn(got.text, "task", "payload")
		if n.Bytes < 70<<10 || !strings.HasPrefix(n.Begins, `{"lines":[`) {
			a.Errorf("%+v", n)
		}
		alike(a.T, "the payload", a.whole(n), payload)
		alike(a.T, "the payload in a list", a.whole(a.noteIn(a.ok("work_list", args{}).text, "items", "payload")), payload)
		waited := a.ok("work_wait", args{"task_id": task, "wait_seconds": 0})
		alike(a.T, "the payload after a wait", a.whole(a.noteIn(waited.text, "task", "payload")), payload)

		out := a.ok("work_checkout", args{"worker_id": "w", "task_id": task})
		var l pawl.Lease
		a.must(json.Unmarshal(out.Items[0], &l))
		alike(a.T, "the input", a.whole(a.noteIn(out.text, "items", "input")), payload)
		lease := args{"item_id": l.ID, "worker_id": "w", "attempt": l.Attempt}

		text := strings.Repeat("a \"quoted\" wörd\n", 5_000)
		a.ok("work_checkpoint", with(lease, "name", "a/b~c", "snapshot", text))
		a.ok("work_checkpoint", with(lease, "type", "iteration_start", "snapshot", payload))
		left := a.ok("work_resume", args{"item_id": l.ID})
		if got := a.whole(a.noteIn(left.text, "steps", "a/b~c", "snapshot")); got != text {
			a.Errorf("the text of a checkpoint has %d bytes, want %d: %.100s", len(got), len(text), got)
		}
		alike(a.T, "the newest checkpoint", a.whole(a.noteIn(left.text, "newest", "snapshot")), payload)

		if rs, err := a.p.Service.PutTypes(a.Context(), []pawl.Type{{Name: "parted", Parts: []pawl.PartRule{{Key: "p"}}}}); err != nil ||
			rs[0].Err != nil {
			a.Fatal(err, rs)
		}
		parted, parts := a.checkout("w", a.ok("work_propose", args{"type": "parted"}).Task.ID)
		part := a.ok("work_submit_part", with(parts, "key", "p", "payload", payload))
		alike(a.T, "a part", a.whole(a.noteIn(part.text, "part", "payload")), payload)
		alike(a.T, "a part in the list", a.whole(a.noteIn(a.ok("work_list_parts", args{"item_id": parted.ID}).text, "items", "payload")), payload)

		done := a.ok("work_complete", with(lease, "result", text))
		if got := a.whole(a.noteIn(done.text, "item", "result")); got != text {
			a.Errorf("the result has %d bytes", len(got))
		}
		if got := a.whole(a.noteIn(a.ok("work_get", args{"task_id": task}).text, "result")); got != text {
			a.Errorf("the task's result has %d bytes", len(got))
		}
		a.no(pawl.CodeInvalid, "must be one of", "work_read", args{"tool": "work_wait", "arguments": args{"task_id": task}, "path": ""})
		a.no(pawl.CodeInvalid, "/offset", "work_read", with(n.Read, "offset", n.Bytes+1))
		a.no(pawl.CodeNotFound, "/task/nothing", "work_read", with(n.Read, "path", "/task/nothing"))
		a.no(pawl.CodeLeaseLost, "", "work_read", a.noteIn(out.text, "items", "input").Read)
	})
}

// Pages end early, and their cursors lead to every row, once.
func TestPagesThatEndEarlyGoOn(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		var items []args
		for i := range 200 {
			items = append(items, args{"key": fmt.Sprint("k", i), "input": i})
		}
		task := a.ok("work_propose", args{"type": "many", "items": items}).Task.ID
		var keys []string
		pages := 0
		for in := (args{"task_id": task}); ; pages++ {
			got := a.ok("work_get", in)
			for _, raw := range got.Items {
				var item pawl.Item
				a.must(json.Unmarshal(raw, &item))
				keys = append(keys, item.Key)
			}
			if got.NextItems == "" {
				break
			}
			in["after_item"] = got.NextItems
		}
		if pages == 0 || len(keys) != 200 || keys[0] != "k0" || keys[199] != "k199" {
			a.Errorf("%d pages, %d items: %.100v", pages, len(keys), keys)
		}
		l, lease := a.checkout("w", task)
		if _, err := a.p.Service.Checkpoint(a.Context(), checkpoints(l, 300)); err != nil {
			a.Fatal(err)
		}
		var names []string
		pages = 0
		for in := (args{"item_id": l.ID}); ; pages++ {
			got := a.ok("work_resume", in)
			if later := strings.Contains(got.text, `"newest":{`); later == (pages > 0) {
				a.Errorf("page %d has the newest checkpoint: %v", pages, later)
			}
			names = append(names, slices.Sorted(maps.Keys(got.Steps))...)
			if got.Next == "" {
				break
			}
			in["cursor"] = got.Next
		}
		if slices.Sort(names); pages == 0 || len(names) != 300 || len(slices.Compact(names)) != 300 {
			a.Errorf("%d pages, %d steps", pages, len(names))
		}
		a.no(pawl.CodeInvalid, "/cursor", "work_resume", args{"item_id": l.ID, "cursor": "~nonsense"})
		a.ok("work_fail", with(lease, "retryable", false, "error", args{"message": "no", "detail": large(40<<10, "detail")}))
		taken := a.ok("work_checkout", args{"worker_id": "w", "task_id": task, "limit": 1000})
		if len(taken.Items) != 32 {
			a.Errorf("%d items at once", len(taken.Items))
		}
		events := map[string]bool{}
		for in := (args{"task_id": task, "limit": 1000}); ; {
			got := a.ok("work_logs", in)
			for _, raw := range got.Items {
				var e pawl.Event
				a.must(json.Unmarshal(raw, &e))
				events[e.ID] = true
			}
			if got.Next == "" {
				break
			}
			in["cursor"] = got.Next
		}
		l2, err := a.p.Service.ListEvents(a.Context(), pawl.EventFilter{TaskID: task, Page: pawl.Page{Limit: 1000}})
		if err != nil || len(events) != len(l2.Items) {
			a.Errorf("%d events, want %d, %v", len(events), len(l2.Items), err)
		}
	})
}

func checkpoints(l pawl.Lease, n int) (calls []pawl.CheckpointCall) {
	for i := range n {
		calls = append(calls, pawl.CheckpointCall{Fence: l.Fence(), NewCheckpoint: pawl.NewCheckpoint{Type: pawl.CustomCheckpoint,
			Name: fmt.Sprintf("step %03d", i), Snapshot: json.RawMessage(`"done"`)}})
	}
	return calls
}

// A worker whose key reads no payloads reads those of the items that it holds, and no others.
func TestWhatWasCutIsReadByItsHolder(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		g := guard(t, p, access.Options{})
		maker, worker, other, claimer := g.holds("submitter"), g.holds("claimer", "reader"), g.holds("claimer", "reader"), g.holds("claimer")
		secret := strings.Repeat("secret ", 20_000)
		maker.must("work_propose", args{"type": "a", "payload": secret})
		r := worker.must("work_checkout", args{"worker_id": "w"})
		text := r.Result.Content[0].Text
		if len(text) > pawl.MaxMCPAnswer || r.Result.Meta[mcp.CutMeta] != 1.0 {
			t.Fatalf("%d bytes, %v", len(text), r.Result.Meta)
		}
		n := (agent{T: t}).noteIn(text, "items", "input")
		worker.must("work_heartbeat", n.Read["arguments"].(map[string]any))
		if got := worker.must("work_read", n.Read).Result.Content[0].Text; !strings.Contains(got, "secret") {
			t.Errorf("the holder reads %.200s", got)
		}
		if code := other.call("work_read", n.Read).Result.StructuredContent.Problem.Code; code != pawl.CodeLeaseLost {
			t.Errorf("another key: %s", code)
		}
		item := n.Read["arguments"].(map[string]any)["item_id"]
		for _, c := range []rpc{worker, other} {
			if r := c.call("work_read", args{"tool": "work_get", "arguments": args{"item_id": item}, "path": "/items/0/input"}); strings.Contains(
				r.Result.Content[0].Text, "secret") {
				t.Error("work_read shows what work_get hides")
			}
		}
		if code := claimer.call("work_read", n.Read).Result.StructuredContent.Problem.Code; code != pawl.CodeForbidden {
			t.Errorf("without the role reader: %s", code)
		}
		worker.must("work_release", n.Read["arguments"].(map[string]any))
		if code := worker.call("work_read", n.Read).Result.StructuredContent.Problem.Code; code != pawl.CodeLeaseLost {
			t.Errorf("after the release: %s", code)
		}
		if r := claimer.must("work_checkout", args{"worker_id": "c"}); !strings.Contains(r.Result.Content[0].Text, secret) {
			t.Error("a key that could not read the rest gets a part")
		}
	})
}

// A large result of work_run begins in its answer.
func TestALargeResultOfARun(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	c := rpc{T: t, url: serve(t, p.Service), plain: true}
	text := strings.Repeat("é", 100_000)
	go func() {
		ls, err := p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"letter"}, WaitSeconds: 60})
		if err == nil && len(ls) == 1 {
			raw, _ := json.Marshal(text)
			_, _ = p.Service.Complete(t.Context(), []pawl.CompleteCall{{Fence: ls[0].Fence(), Result: raw}})
		}
	}()
	r := c.run(args{"type": "letter"}).Result
	if len(r.Content) != 2 || len(r.Content[0].Text) > pawl.MaxMCPAnswer || !strings.HasPrefix(text, r.Content[0].Text) {
		t.Fatalf("%d contents, %d bytes", len(r.Content), len(r.Content[0].Text))
	}
	_, told, found := strings.Cut(r.Content[1].Text, "the arguments ")
	var in args
	if err := json.Unmarshal([]byte(told), &in); err != nil || !found {
		t.Fatal(r.Content[1].Text, err)
	}
	got := r.Content[0].Text
	for {
		var piece struct {
			Text string
			Next int
		}
		if err := json.Unmarshal([]byte(c.must("work_read", in).Result.Content[0].Text), &piece); err != nil {
			t.Fatal(err)
		}
		got += piece.Text
		if piece.Next == 0 {
			break
		}
		in["offset"] = piece.Next
	}
	if got != text {
		t.Errorf("%d bytes, want %d", len(got), len(text))
	}
}

// Large schemas of types and answers of effects are cut, and read as their notes say.
func TestTypesAndEffectsAreReadInPieces(t *testing.T) {
	each(t, pawl.Hooks{}, func(a agent) {
		schema := json.RawMessage(`{"type":"object","description":"` + strings.Repeat("x", 70<<10) + `"}`)
		rs, err := a.p.Service.PutTypes(a.Context(), []pawl.Type{{Name: "a"}, {Name: "big", ResultSchema: schema}})
		if err != nil || rs[1].Err != nil {
			a.Fatal(err, rs)
		}
		alike(a.T, "the schema", a.whole(a.noteIn(a.ok("work_types", args{"names": []string{"big"}}).text, "items", "result_schema")), schema)

		_, lease := a.checkout("w", a.ok("work_propose", args{"type": "e"}).Task.ID)
		opened := func() (id string) {
			var o struct{ ID string }
			a.must(json.Unmarshal([]byte(a.ok("work_effect_open", with(lease, "name", "mail", "request_hash", "h")).text), &o))
			return o.ID
		}
		answer := strings.Repeat("y", 70<<10)
		done := a.ok("work_effect_report", with(lease, "effect_id", opened(), "sending", 1, "state", "done", "answer", answer))
		again := a.ok("work_effect_open", with(lease, "name", "mail", "request_hash", "h"))
		for what, n := range map[string]note{
			"report": a.noteIn(done.text, "effect", "answer"),
			"open":   a.noteIn(again.text, "answer"),
			"list":   a.noteIn(a.ok("work_effects", args{}).text, "items", "answer"),
		} {
			if got := a.whole(n); got != answer {
				a.Errorf("%s: the answer has %d bytes: %.100s", what, len(got), got)
			}
		}
	})
}
