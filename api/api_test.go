package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

func TestRoutesAreATable(t *testing.T) {
	names, paths := map[string]bool{}, map[string]bool{}
	roles := map[api.Role]bool{api.Anyone: true, api.Submitter: true, api.Claimer: true, api.Approver: true, api.Operator: true,
		api.Reader: true}
	for _, r := range api.Routes {
		at := r.Method + " " + r.Path
		if names[r.Name] || paths[at] {
			t.Errorf("%s (%s) is there twice", r.Name, at)
		}
		names[r.Name], paths[at] = true, true
		if !roles[r.Role] || r.Success < 200 || r.Success > 299 || r.Means == "" || !strings.HasSuffix(r.Means, ".") {
			t.Errorf("%+v", r)
		}
		if (r.Role == api.Reader) && r.Method != http.MethodGet {
			t.Errorf("%s: a reader only reads", r.Name)
		}
		if !reflect.DeepEqual(api.RouteOf(r.Name), r) {
			t.Errorf("RouteOf(%q) is another", r.Name)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("a name that is in no row was found")
		}
	}()
	api.RouteOf("nope")
}

func TestProblemsAndErrorsAreEachOther(t *testing.T) {
	for _, in := range []*pawl.Error{
		{Code: pawl.CodeInvalid, Fields: []pawl.Field{{Pointer: "/a/0", Message: "is wrong"}}},
		{Code: pawl.CodeConflict, Message: "no", State: "completed", Allowed: []string{}},
		{Code: pawl.CodeConflict, Message: "no", State: "failed", Allowed: []string{"retry"}},
		{Code: pawl.CodeLeaseLost, Message: "no", State: "leased", Holder: "w", Attempt: 3, Reason: pawl.ReasonTaken},
		{Code: pawl.CodeNotFound, Message: "no task x"},
		{Code: pawl.CodeKeyReused},
	} {
		b, err := json.Marshal(api.ProblemOf(fmt.Errorf("wrapped: %w", in), "/v1/x"))
		if err != nil {
			t.Fatal(err)
		}
		var p api.Problem
		if err := json.Unmarshal(b, &p); err != nil {
			t.Fatal(err)
		}
		var out *pawl.Error
		if !errors.As(p.Err(), &out) || fmt.Sprintf("%#v", *out) != fmt.Sprintf("%#v", *in) {
			t.Errorf("%s\n got %#v\nwant %#v", b, *out, *in)
		}
	}
}

func TestErrorsThatAreNotOurs(t *testing.T) {
	for err, want := range map[error]pawl.Code{
		errors.New("secret"):                      pawl.CodeInternal,
		context.Canceled:                          pawl.CodeUnavailable,
		context.DeadlineExceeded:                  pawl.CodeUnavailable,
		&pawl.Error{Code: "of a later version"}:   pawl.CodeInternal,
		&pawl.Error{Code: pawl.CodeKeyRequired}:   pawl.CodeKeyRequired,
		fmt.Errorf("a: %w", pawl.ErrLeaseTaken):   pawl.CodeLeaseLost,
		fmt.Errorf("a: %w", context.Canceled):     pawl.CodeUnavailable,
		fmt.Errorf("a: %w", errors.New("secret")): pawl.CodeInternal,
	} {
		p := api.ProblemOf(err, "/")
		if p.Code != want || p.Status != want.Info().HTTP || strings.Contains(fmt.Sprintf("%+v", p), "secret") {
			t.Errorf("%v: %+v", err, p)
		}
	}
	if code := pawl.CodeOf(api.Problem{}.Err()); code != pawl.CodeInternal {
		t.Errorf("an empty problem is %s", code)
	}
}

// A filter that is written as a query and read again is the same filter.
func TestQueriesCarryFilters(t *testing.T) {
	at := time.Date(2026, 1, 29, 11, 0, 0, 123_456_000, time.FixedZone("", 3600))
	zero := 0
	for _, c := range []struct {
		query any
		want  string
	}{
		{api.TaskQueryOf(pawl.TaskFilter{}), ""},
		{api.TaskQueryOf(pawl.TaskFilter{Types: []string{"a", "b"}, States: []pawl.TaskState{"failed"}, MinPriority: &zero,
			MaxPriority: &zero, Since: at, Asc: true, Page: pawl.Page{Limit: 5, Cursor: "c"}}),
			"cursor=c&limit=5&max_priority=0&min_priority=0&order=asc&since=2026-01-29T10%3A00%3A00.123456Z&state=failed&type=a%2Cb"},
		{api.TaskQueryOf(pawl.TaskFilter{ByUpdate: true, Changed: at}), "sort=-updated_at&updated_since=2026-01-29T10%3A00%3A00.123456Z"},
		{api.TaskQueryOf(pawl.TaskFilter{ByUpdate: true, Asc: true}), "sort=updated_at"},
		{api.TaskQueryOf(pawl.TaskFilter{ByPriority: true, Asc: true}), "sort=priority"},
		{api.ItemsQueryOf(pawl.ItemFilter{TaskID: "t", WorkerID: "w", Statuses: []pawl.Status{"expired"}, Desc: true}),
			"order=desc&status=expired&task=t&worker_id=w"},
		{api.EventsQueryOf(pawl.EventFilter{TaskID: "t", ItemID: "i", Event: "leased", Until: at}),
			"event=leased&item=i&task=t&until=2026-01-29T10%3A00%3A00.123456Z"},
		{api.CheckpointsQueryOf(pawl.CheckpointFilter{ItemID: "i", Types: []string{"custom"}, Names: []string{"n", "o"},
			NamePrefix: "p:", Desc: true}), "item=i&name=n%2Co&name_prefix=p%3A&order=desc&type=custom"},
		{api.KeyQueryOf(pawl.KeyFilter{Status: "failed", TaskID: "t"}), "status=failed&task=t"},
		{api.WorkerQueryOf(pawl.WorkerFilter{SeenSince: at}), "seen_since=2026-01-29T10%3A00%3A00.123456Z"},
	} {
		if got := api.Values(c.query).Encode(); got != c.want {
			t.Errorf("%T: %s\nwant %s", c.query, got, c.want)
		}
	}
}

func TestPlainShape(t *testing.T) {
	at := time.Date(2026, 1, 29, 10, 0, 0, 0, time.UTC)
	task := pawl.Task{ID: "tsk_1", Type: "a", State: pawl.TaskFailed, Status: pawl.StatusFailed, Stage: "",
		Error: &pawl.Failure{Message: "broken"}, RetryCount: 3,
		Metadata: json.RawMessage(`{}`), InputHash: "h", CreatedAt: at, UpdatedAt: at, Version: 2}
	b, err := json.Marshal(api.PlainTaskOf(task))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"id":"tsk_1","type":"a","status":"FAILED","state":"Failed","progress":0,"priority":0,"metadata":{},"error":"broken",` +
		`"input_hash":"h","retry_count":3,` +
		`"created_at":"2026-01-29T10:00:00Z","updated_at":"2026-01-29T10:00:00Z","version":2}`
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	for _, c := range []struct {
		event                pawl.Event
		status, state, actor string
	}{
		{pawl.Event{Event: "proposed", ItemID: "i", ToState: "queued", TaskTo: "open", ActorType: "api"}, "PENDING", "Queued", "API"},
		{pawl.Event{Event: "proposed", ToState: "open", ActorType: "api"}, "PENDING", "Queued", "API"},
		{pawl.Event{Event: "leased", ItemID: "i", FromState: "queued", ToState: "leased", ActorType: "worker"}, "IN_PROGRESS", "Leased",
			"WORKER"},
		{pawl.Event{Event: "progressed", ItemID: "i", Message: "Progress reported", ActorType: "worker"}, "IN_PROGRESS",
			"Progress reported", "WORKER"},
		{pawl.Event{Event: "progressed", ItemID: "i", Message: "Progress reported", Data: []byte(`{"progress":4,"stage":"Cloning"}`),
			ActorType: "worker"}, "IN_PROGRESS", "Cloning", "WORKER"},
		{pawl.Event{Event: "completed", ItemID: "i", ToState: "completed", TaskTo: "completed", ActorType: "worker"}, "COMPLETED",
			"Completed", "WORKER"},
		{pawl.Event{Event: "cancelled", ItemID: "i", ToState: "cancelled", TaskTo: "cancelled", ActorType: "user"}, "CANCELLED",
			"Cancelled by user", "USER"},
		{pawl.Event{Event: "dead_lettered", ToState: "dead_lettered", ActorType: "system"}, "FAILED", "Dead lettered", "SYSTEM"},
	} {
		if p := api.PlainEventOf(c.event); p.Status != c.status || p.State != c.state || p.Actor != c.actor {
			t.Errorf("%s: %+v", c.event.Event, p)
		}
	}
}
