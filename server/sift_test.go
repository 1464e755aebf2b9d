package server_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// Each call of a batch is answered on its own, also one that cannot be read.
func TestABadCallRefusesNoOther(t *testing.T) {
	h := open(t)
	const good = `{"type":"a","payload":{"n":1}}`
	deep := strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000)
	for name, c := range map[string]struct{ call, pointer string }{
		"half of a surrogate pair":          {`{"type":"a","payload":{"x":"\ud800"}}`, "/payload/x"},
		"the other half":                    {`{"type":"a","title":"\udc00 b"}`, "/title"},
		"bytes that are not UTF-8":          {"{\"type\":\"a\",\"payload\":[\"\xff\"]}", "/payload/0"},
		"NUL":                               {`{"type":"a\u0000"}`, "/type"},
		"NUL in a payload":                  {`{"type":"a","payload":"\u0000"}`, "/payload"},
		"a byte NUL":                        {"{\"type\":\"a\",\"title\":\"\x00\"}", "/title"},
		"a name twice":                      {`{"type":"a","type":"b"}`, "/type"},
		"another kind":                      {`{"type":1}`, "/type"},
		"no object":                         {`7`, ""},
		"null":                              {`null`, ""},
		"an unknown name":                   {`{"type":"a","typ":"b"}`, "/typ"},
		"another case":                      {`{"type":"a","Title":"b"}`, "/Title"},
		"a missing name":                    {`{"payload":1}`, "/type"},
		"too deep":                          {`{"type":"a","payload":` + deep + `}`, "/payload"},
		"too deep outside of a payload":     {`{"type":"a","items":` + deep + `}`, ""},
		"a number out of range":             {`{"type":"a","priority":99999999999999999999}`, "/priority"},
		"a number far out of range":         {`{"type":"a","priority":1e400}`, "/priority"},
		"a fraction":                        {`{"type":"a","priority":1.5}`, "/priority"},
		"a time that is none":               {`{"type":"a","run_at":"tomorrow"}`, "/run_at"},
		"0 where it would be no limit":      {`{"type":"a","start_to_close_seconds":0}`, "/start_to_close_seconds"},
		"what the service refuses":          {`{"type":""}`, "/type"},
		"brackets in a text, and bad UTF-8": {"{\"type\":\"a\",\"title\":\"]}, {\\\"\xff\"}", "/title"},
	} {
		t.Run(name, func(t *testing.T) {
			for at := range 3 {
				calls := []string{good, good}
				calls = append(calls[:at:at], append([]string{c.call}, calls[at:]...)...)
				r := h.do(200, "POST", "/v1/tasks:batch", ` { "items" : [ `+strings.Join(calls, " , ")+" ] } ")
				results, _ := r.json["results"].([]any)
				if len(results) != 3 {
					t.Fatalf("%d results: %s", len(results), r.text)
				}
				for i, got := range results {
					got := got.(map[string]any)
					if i != at {
						if got["status"] != 201.0 {
							t.Errorf("the call beside it at %d: %v", i, got)
						}
						continue
					}
					problem, _ := got["error"].(map[string]any)
					if got["status"] != 400.0 || problem["code"] != "invalid" || problem["instance"] != "/v1/tasks:batch" {
						t.Errorf("the bad call: %v", got)
					}
					var pointer any = ""
					if fields, _ := problem["errors"].([]any); len(fields) > 0 {
						pointer = fields[0].(map[string]any)["pointer"]
					}
					if pointer != c.pointer {
						t.Errorf("pointer %q, want %q: %v", pointer, c.pointer, problem)
					}
				}
			}
		})
	}
	r := h.do(200, "POST", "/v1/tasks:batch", `{"items":[{"type":1},{"type":"a","x":1},{"type":"a","priority":1e9},`+good+`]}`)
	if statuses(r) != "[400 400 400 201]" {
		t.Errorf("several bad calls: %s", r.text)
	}
	r = h.do(200, "POST", "/v1/items:complete", `{"items":[{"worker_id":"w","attempt":1},{"id":"itm_1","worker_id":"w","attempt":1}]}`)
	if statuses(r) != "[400 404]" {
		t.Errorf("another verb: %s", r.text)
	}
	if r = h.do(200, "POST", "/v1/tasks:batch", `{"items":[{"type":1},7]}`); statuses(r) != "[400 400]" {
		t.Errorf("only bad calls: %s", r.text)
	}
}

func statuses(r reply) string {
	var out []any
	results, _ := r.json["results"].([]any)
	for _, got := range results {
		out = append(out, got.(map[string]any)["status"])
	}
	return fmt.Sprint(out)
}

// What is no batch is refused as a whole.
func TestABatchThatIsNone(t *testing.T) {
	h := open(t)
	for name, body := range map[string]string{
		"broken JSON":                `{"items":[{"type":"a"},{"type":}]}`,
		"a comma at the end":         `{"items":[{"type":"a"},]}`,
		"another bracket":            `{"items":[{"type":"a","payload":[1}}]}`,
		"cut":                        `{"items":[{"type":"a"},{"type":"\ud800"`,
		"something after its end":    `{"items":[{"type":"\ud800"}]} x`,
		"a member that is not known": `{"items":[{"type":"a"}],"x":1}`,
		"the list twice":             `{"items":[{"type":"a"}],"items":[]}`,
		"no list":                    `{"items":{"type":1}}`,
		"too many":                   `{"items":[7` + strings.Repeat(`,{"type":"a"}`, pawl.MaxItemsPerCall) + `]}`,
	} {
		if r := ask(t, h.srv, "POST", "/v1/tasks:batch", body); r.StatusCode != 400 {
			t.Errorf("%s: %s %s", name, r.Status, r.text)
		}
	}
	if n := len(ask(t, h.srv, "GET", "/v1/tasks", "").items()); n != 0 {
		t.Errorf("%d tasks were made", n)
	}
}

// The answer under an idempotency key has the refused calls. Another bad call is another request.
func TestABadCallUnderAKey(t *testing.T) {
	h := open(t)
	send := func(bad, key string) reply {
		return ask(t, h.srv, "POST", "/v1/tasks:batch", `{"items":[`+bad+`,{"type":"a"}]}`, "Idempotency-Key", key)
	}
	first := send(`{"type":"\ud800"}`, "k")
	again := send(`{"type":"\ud800"}`, "k")
	if statuses(first) != "[400 201]" || again.text != first.text || again.Header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("first %s\nagain %s", first.text, again.text)
	}
	if other := send(`{"type":"\ud801"}`, "k"); other.str("code") != "key_reused" {
		t.Errorf("another bad call: %s", other.text)
	}
}
