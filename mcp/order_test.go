package mcp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// The example of a work order as a type: its acceptance_config is the
// schema of the payload.
const userDataSync = `{"name":"user.data.sync","payload_schema":{"type":"object","properties":{"source":{"type":"string"},` +
	`"filters":{"type":"object"}}},
	"result_schema":{"type":"object","required":["contacts"]},"lease_seconds":600,"evidence_required":true,"approval":{"mode":"manual",` +
	`"not_by_requester":false,"not_by_worker":false},
	"parts":[{"key":"contacts","repeatable":true,"schema":{"type":"object","required":["contacts"],` +
	`"properties":{"contacts":{"type":"array","items":{"type":"object","properties":{"email":{"type":"string","format":"email"}}}}}}}]}`

// door is one way in: a call by the name of its tool, or by its route.
type door func(t *testing.T, tool, route string, in args) json.RawMessage

// overMCP calls tools.
func overMCP(a agent) door {
	return func(t *testing.T, tool, _ string, in args) json.RawMessage {
		t.Helper()
		res, err := a.session.CallTool(t.Context(), &sdk.CallToolParams{Name: tool, Arguments: in})
		if err != nil {
			t.Fatal(err)
		}
		text := res.Content[0].(*sdk.TextContent).Text
		if res.IsError {
			t.Fatalf("%s: %s", tool, text)
		}
		return json.RawMessage(text)
	}
}

// overHTTP calls routes; who calls says that he is an agent, as tools do.
func overHTTP(base string) door {
	return func(t *testing.T, _, route string, in args) json.RawMessage {
		t.Helper()
		method, path, _ := strings.Cut(route, " ")
		for name, v := range in {
			if s, ok := v.(string); ok && strings.Contains(path, "{"+name+"}") {
				path = strings.ReplaceAll(path, "{"+name+"}", url.PathEscape(s))
			}
		}
		body := args{}
		for name, v := range in {
			if !strings.Contains(route, "{"+name+"}") && method != http.MethodGet {
				body[name] = v
			}
		}
		raw, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if method == http.MethodGet {
			raw = nil
		}
		req, err := http.NewRequestWithContext(t.Context(), method, base+path, bytes.NewReader(raw))
		if err != nil {
			t.Fatal(err)
		}
		if raw != nil {
			req.Header.Set("Content-Type", "application/json")
		}
		req.Header.Set("Pawl-Actor", "agent")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		answer, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode >= 300 {
			t.Fatalf("%s: %s %s %v", route, res.Status, answer, err)
		}
		return answer
	}
}

// The five examples of a work order, made over each door and read over both, field for
// field.
func TestWorkOrderExamples(t *testing.T) {
	for _, which := range pawltest.Databases {
		for _, by := range []string{"mcp", "http"} {
			t.Run(string(which)+"/"+by, func(t *testing.T) {
				t.Parallel()
				p := pawltest.Open(t, which)
				base := serve(t, p.Service)
				a := connect(t, p, &sdk.StreamableClientTransport{Endpoint: base + "/mcp"})
				doors := map[string]door{"mcp": overMCP(a), "http": overHTTP(base)}
				var typ pawl.Type
				a.must(json.Unmarshal([]byte(userDataSync), &typ))
				if rs, err := p.Service.PutTypes(t.Context(), []pawl.Type{typ}); err != nil || rs[0].Err != nil {
					t.Fatal(err, rs[0].Err)
				}
				(&example{T: t, p: p, do: doors[by], doors: doors}).run()
			})
		}
	}
}

type example struct {
	*testing.T
	p     *pawltest.Pawl
	do    door
	doors map[string]door

	task, item, part string
}

func (x *example) run() {
	x.task = x.id(x.do(x.T, "work_propose", "POST /v1/tasks", args{
		"type": "user.data.sync", "priority": 10, "requested_by": args{"type": "agent", "id": "agent-123"},
		"metadata": args{"requested_by": "admin-dashboard"},
		"payload":  args{"source": "external-api", "filters": args{"active": true}},
		"items":    []args{{"input": args{"batch_id": 1, "user_ids": []int{123, 456, 789}}}},
	}), "task")
	claimed := x.do(x.T, "work_checkout", "POST /v1/claims", args{"worker_id": "agent-123", "types": []string{"user.data.sync"},
		"lease_seconds": 600})
	var leases struct{ Items []pawl.Lease }
	x.read(claimed, &leases)
	x.item = leases.Items[0].ID
	lease := args{"item_id": x.item, "worker_id": "agent-123", "attempt": 1}

	x.same("items", "work_get", "GET /v1/items/{item_id}", args{"item_id": x.item}, "items.0", leasedItem)
	x.p.Advance(5 * time.Minute)
	x.part = x.id(x.do(x.T, "work_submit_part", "POST /v1/items/{item_id}/parts", with(lease, "key", "contacts", "seq", 1,
		"payload", args{"contacts": []args{{"email": "user@example.com", "name": "John Doe"}}},
		"evidence", args{"source": "linkedin-api", "retrieved_at": "2025-01-15T10:30:00Z"}, "notes", "Retrieved from LinkedIn API")), "part")
	x.same("item_parts", "work_list_parts", "GET /v1/items/{item_id}/parts", args{"item_id": x.item}, "items.0", contactsPart)
	x.do(x.T, "work_submit", "POST /v1/items/{item_id}:submit",
		with(lease, "result", args{"contacts": []args{{"email": "user@example.com"}}}, "evidence", args{"source": "linkedin-api"}))
	x.same("work_orders", "work_get", "GET /v1/tasks/{task_id}", args{"task_id": x.task}, "task", submittedOrder)
	x.same("work_events", "work_logs", "GET /v1/items/{item_id}/events?event=submitted", args{"item_id": x.item, "event": "submitted"},
		"items.0", submittedEvent)
}

func (x *example) read(raw json.RawMessage, into any) {
	x.Helper()
	if err := json.Unmarshal(raw, into); err != nil {
		x.Fatalf("%s: %v", raw, err)
	}
}

// id is that of what was made: tools answer with it under its name.
func (x *example) id(raw json.RawMessage, under string) string {
	x.Helper()
	var made map[string]json.RawMessage
	x.read(raw, &made)
	if made["id"] == nil {
		x.read(made[under], &made)
	}
	var id string
	x.read(made["id"], &id)
	return id
}

// same reads something over both doors and wants it to be as told: all of its
// fields, and no others. Ids are named in what is told.
func (x *example) same(what, tool, route string, in args, at, want string) {
	x.Helper()
	for name, do := range x.doors {
		got := do(x.T, tool, route, in)
		if path := strings.Split(at, "."); name == "mcp" || path[0] == "items" && strings.HasSuffix(route, "parts") ||
			strings.Contains(route, "events") {
			for _, step := range path {
				if step == "0" {
					var list []json.RawMessage
					x.read(got, &list)
					got = list[0]
					continue
				}
				var object map[string]json.RawMessage
				x.read(got, &object)
				got = object[step]
			}
		}
		text := string(got)
		for id, named := range map[string]string{x.task: "TASK", x.item: "ITEM", x.part: "PART"} {
			if id != "" {
				text = strings.ReplaceAll(text, id, named)
			}
		}
		var a, b any
		x.read(json.RawMessage(text), &a)
		x.read(json.RawMessage(want), &b)
		if one, other := string(canonical(a)), string(canonical(b)); one != other {
			x.Errorf("%s over %s is\n%s\nwant\n%s", what, name, one, other)
		}
	}
}

func canonical(v any) json.RawMessage {
	m, _ := v.(map[string]any)
	if id, _ := m["id"].(string); strings.HasPrefix(id, "evt_") {
		m["id"] = "EVENT"
	}
	raw, _ := json.MarshalIndent(v, "", " ") // it was JSON
	return raw
}

// What is null is left out. Its attempts are failures; attempt
// counts the claims.
const leasedItem = `{"id": "ITEM", "task_id": "TASK", "namespace": "default", "type": "user.data.sync", "kind": "work", "position": 0, ` +
	`"state": "leased", "status": "in_progress",
	"stage": "Leased", "progress": 0, "priority": 10, "attempt": 1, "failures": 0, "max_attempts": 3, "worker_id": "agent-123", ` +
	`"last_worker_id": "agent-123",
	"lease_seconds": 600, "lease_acquired_at": "2026-01-29T10:00:00Z", "lease_expires_at": "2026-01-29T10:10:00Z", "heartbeat_at": ` +
	`"2026-01-29T10:00:00Z",
	"input": {"batch_id": 1, "user_ids": [123, 456, 789]}, "blocked_by": null, "created_at": "2026-01-29T10:00:00Z", "started_at": ` +
	`"2026-01-29T10:00:00Z", "updated_at": "2026-01-29T10:00:00Z"}`

const contactsPart = `{"id": "PART", "item_id": "ITEM", "key": "contacts", "seq": 1, "status": "validated",
	"payload": {"contacts": [{"email": "user@example.com", "name": "John Doe"}]}, "evidence": {"source": "linkedin-api", "retrieved_at": ` +
	`"2025-01-15T10:30:00Z"},
	"notes": "Retrieved from LinkedIn API", "checksum": "be54baf4fc5b0cd013355cac394fe77fbb9d4a1f6736bd4e2b4eb1ed0fd790eb", "worker_id": ` +
	`"agent-123", "attempt": 1,
	"created_at": "2026-01-29T10:05:00Z", "updated_at": "2026-01-29T10:05:00Z"}`

// Its acceptance_config is the schema of type_version.
const submittedOrder = `{"id": "TASK", "namespace": "default", "type": "user.data.sync", "type_version": 1, "state": "submitted", ` +
	`"status": "in_progress", "stage": "Submitted", "progress": 99,
	"priority": 10, "requested_by": {"type": "agent", "id": "agent-123"}, "payload": {"source": "external-api", "filters": {"active": true}},
	"metadata": {"requested_by": "admin-dashboard"}, "items": 1, "items_open": 0, "blocked_by": null, "retry_count": 0, "version": 1, ` +
	`"ready_for_approval": true,
	"created_at": "2026-01-29T10:00:00Z", "updated_at": "2026-01-29T10:05:00Z", "last_transitioned_at": "2026-01-29T10:05:00Z"}`

// The result is the item's, and not kept twice.
const submittedEvent = `{"id": "EVENT", "namespace": "default", "task_id": "TASK", "task_type": "user.data.sync", "item_id": "ITEM", ` +
	`"attempt": 1, "event": "submitted",
	"from_state": "in_progress", "to_state": "submitted", "actor_type": "agent", "actor_id": "agent-123", "message": "Work item submitted",
	"data": {"evidence": {"source": "linkedin-api"}}, "created_at": "2026-01-29T10:05:00Z"}`
