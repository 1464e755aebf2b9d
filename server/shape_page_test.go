package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// cutShort is a service whose searches end at a bound.
type cutShort struct{ pawl.Service }

func (cutShort) ListTasks(context.Context, pawl.TaskFilter) (pawl.List[pawl.Task], error) {
	return pawl.List[pawl.Task]{Next: "tsk_x", Incomplete: true}, nil
}

func (cutShort) ListItems(context.Context, pawl.ItemFilter) (pawl.List[pawl.Item], error) {
	return pawl.List[pawl.Item]{Next: "itm_x", Incomplete: true}, nil
}

// A page of a search that ended at a bound says so, in each of its forms.
func TestAPageSaysThatItIsIncomplete(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := &testServer{t, p, serve(t, cutShort{p.Service}, server.Options{})}
	task := p.Create(pawl.NewTask{Type: "a"})
	for _, path := range []string{"/v1/tasks", "/v1/items", "/v1/tasks/" + task.ID + "/items"} {
		for _, query := range []string{"", "?fields=id", "?include=events"} {
			if r := h.do(200, "GET", path+query, ""); !strings.Contains(r.text, `"incomplete":true`) {
				t.Errorf("%s%s: %s", path, query, r.text)
			}
		}
	}
}

// vanishing is a service of which a task goes while a page is made.
type vanishing struct {
	pawl.Service
	lists *int
	gone  string
}

func (v vanishing) ListTasks(ctx context.Context, f pawl.TaskFilter) (pawl.List[pawl.Task], error) {
	if *v.lists++; *v.lists == 2 {
		rs, err := v.Service.DeleteTasks(ctx, []pawl.TaskCall{{TaskID: v.gone, Force: true}})
		if err != nil || rs[0].Err != nil {
			return pawl.List[pawl.Task]{}, fmt.Errorf("%v, %v", err, rs)
		}
	}
	return v.Service.ListTasks(ctx, f)
}

// A page that ends early because of what it includes is followed by the next row, also if another goes
// meanwhile.
func TestAPageThatEndsEarlyLeavesOutNoRow(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	left := map[string]bool{}
	large := []byte(`"` + strings.Repeat("x", pawl.MaxPayloadBytes-2) + `"`)
	var newest string
	for range 12 { // more than a page has room for
		newest = p.Create(pawl.NewTask{Type: "a", Payload: large}).ID
		left[newest] = true
	}
	h := &testServer{t, p, serve(t, vanishing{p.Service, new(int), newest}, server.Options{})}
	delete(left, newest)
	for next := ""; ; {
		r := h.do(http.StatusOK, "GET", "/v1/tasks?fields=id&include=items&cursor="+url.QueryEscape(next), "")
		for _, task := range r.items() {
			delete(left, task["id"].(string))
		}
		if next = r.str("next"); next == "" {
			break
		}
	}
	if len(left) > 0 {
		t.Errorf("tasks that no page has: %v", left)
	}
}
