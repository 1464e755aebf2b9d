package server_test

import (
	"encoding/hex"
	"net/http"
	"strings"
	"testing"

	"github.com/oklog/ulid/v2"

	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

func uuidOf(t *testing.T, id string) string {
	t.Helper()
	b, err := ulid.ParseStrict(id[len("tsk_"):])
	if err != nil {
		t.Fatal(err)
	}
	h := hex.EncodeToString(b[:])
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// A call with an idempotency key is one call, whether its ids are texts or UUIDs.
func TestACallInEitherFormIsOneCall(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		srv := serve(t, p.Service, server.Options{})
		do := func(path, body string, headers ...string) reply {
			t.Helper()
			r := ask(t, srv, "POST", path, body, headers...)
			if r.StatusCode >= 300 {
				t.Fatalf("%s: %s %s", path, r.Status, r.text)
			}
			return r
		}
		task := do("/v1/tasks", `{"type":"a","items":[{"input":1},{"input":2}]}`).str("id")
		item := do("/v1/claims", `{"worker_id":"w","task_id":"`+uuidOf(t, task)+`"}`).items()[0]["id"].(string)
		for n, same := range [][2]func(id string) string{
			{func(id string) string { return "/v1/items/" + id + ":progress" },
				func(string) string { return `{"worker_id":"w","attempt":1,"progress":5}` }},
			{func(string) string { return "/v1/items:progress" },
				func(id string) string {
					return `{"items":[{"id":"` + id + `","worker_id":"w","attempt":1,"progress":6}]}`
				}},
			{func(id string) string { return "/v1/items/" + id + ":complete" },
				func(string) string { return `{"worker_id":"w","attempt":1}` }},
		} {
			key := []string{api.KeyHeader, string(rune('a' + n))}
			first := do(same[0](uuidOf(t, item)), same[1](uuidOf(t, item)), key...)
			again := do(same[0](item), same[1](item), key...)
			upper := strings.ToUpper(uuidOf(t, item))
			third := do(same[0](upper), same[1](upper), key...)
			for _, r := range []reply{again, third} {
				if r.Header.Get(api.ReplayedHeader) != "true" || r.text != first.text {
					t.Errorf("%s: %v %s want %s", same[0](item), r.Header, r.text, first.text)
				}
			}
			if !strings.Contains(first.text, item) || strings.Contains(first.text, uuidOf(t, item)) {
				t.Errorf("the answer has no text: %s", first.text)
			}
		}
		for _, path := range []string{"/v1/tasks/" + uuidOf(t, task), "/v1/items?task=" + uuidOf(t, task), "/tasks/" + uuidOf(t, task),
			"/v1/tasks?id=" + uuidOf(t, task) + "," + task, "/v1/events?item_id=" + uuidOf(t, item)} {
			if r := ask(t, srv, http.MethodGet, path, ""); r.StatusCode != 200 || !strings.Contains(r.text, task) {
				t.Errorf("%s: %s %s", path, r.Status, r.text)
			}
		}
		if r := ask(t, srv, http.MethodGet, "/v1/tasks/tsk_"+uuidOf(t, task), ""); r.StatusCode != 404 {
			t.Errorf("a UUID with a prefix: %s", r.text)
		}
	})
}
