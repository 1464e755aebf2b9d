package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/store"
)

// What a caller writes with the keys for its own side effects is never the answer of a call, does
// not stop it, and shows nothing of it.
func TestKeysOfCallersAreNotThoseOfCalls(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		ours, token := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles})
		_, theirs := h.key(pawl.NewAPIKey{Roles: []string{"submitter"}})
		scope := "POST /v1/tasks " + ours.ID
		own := func(status int, key, verb, more string) reply {
			t.Helper()
			r := h.ask(theirs, "POST", "/v1/idempotency-keys/"+key+":"+verb, fmt.Sprintf(`{"scope":%q%s}`, scope, more))
			if r.StatusCode != status {
				t.Errorf("%s %s: %s %s", verb, key, r.Status, r.text)
			}
			return r
		}
		create := func(key, what string, replayed bool) string {
			t.Helper()
			r := h.ask(token, "POST", "/v1/tasks", `{"type":"a"}`, "Idempotency-Key", key)
			id := r.str("id")
			if r.StatusCode != 201 || id == "" || (r.Header.Get("Idempotency-Replayed") == "true") != replayed {
				t.Fatalf("%s: %s %v %s", what, r.Status, r.Header, r.text)
			}
			if _, err := p.Service.GetTask(t.Context(), id); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			return id
		}
		hash, _ := pawl.HashOf(map[string]any{"query": "", "if_match": "", "body": map[string]string{"type": "a"}})
		request := fmt.Sprintf(`,"request_hash":%q`, hash)

		own(200, "pending", "begin", request+`,"lock_seconds":3600,"ttl_seconds":-1`)
		create("pending", "beside a key that is held", false)
		create("pending", "again", true)
		run := own(200, "done", "begin", request).str("token")
		own(200, "done", "complete", fmt.Sprintf(`,"token":%q,"response":{"id":"made up"}`, run))
		create("done", "beside a key that is complete", false)
		create("other", "before a key is begun", false)
		if r := own(200, "other", "begin", request); !strings.Contains(r.text, `"run":true`) || strings.Contains(r.text, `tsk_`) {
			t.Errorf("a caller's own key finds the answer of a call: %s", r.text)
		}
		create("other", "after it was begun", true)
		if r := h.ask(theirs, "GET", "/v1/idempotency-keys/done?scope="+strings.ReplaceAll(scope, " ", "%20"), ""); r.StatusCode != 200 ||
			strings.Contains(r.text, "tsk_") {
			t.Errorf("reading: %s %s", r.Status, r.text)
		}
	})
}

// A row that a caller wrote in the place of a call, as earlier versions let it do, is no answer.
func TestARowWithoutACodeIsNoAnswer(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := gated(t, p, access.Options{})
		ours, token := h.key(pawl.NewAPIKey{Roles: pawl.KeyRoles})
		for _, status := range []string{"pending", "completed", "failed"} {
			r := h.ask(token, "POST", "/v1/tasks", `{"type":"a"}`, "Idempotency-Key", status)
			if r.StatusCode != 201 {
				t.Fatal(r.Status)
			}
			if err := p.Engine.DB().Do(t.Context(), func(ctx context.Context, tx store.Tx) error {
				_, err := tx.Exec(ctx, `UPDATE pawl.idempotency_keys SET code = NULL, status = $1, response = '{}', locked_until = $2
					WHERE scope = $3 AND status = 'completed' AND code IS NOT NULL`, status, int64(1)<<60, "POST /v1/tasks "+ours.ID)
				return err
			}); err != nil {
				t.Fatal(err)
			}
			again := h.ask(token, "POST", "/v1/tasks", `{"type":"a"}`, "Idempotency-Key", status)
			if again.StatusCode != 201 || again.str("id") == "" || again.str("id") == r.str("id") {
				t.Errorf("%s: %s %s", status, again.Status, again.text)
			}
		}
	})
}
