package push

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// unread is a service whose items cannot be read.
type unread struct{ pawl.Service }

func (unread) ListItems(context.Context, pawl.ItemFilter) (pawl.List[pawl.Item], error) {
	return pawl.List[pawl.Item]{}, &pawl.Error{Code: pawl.CodeUnavailable}
}

// Once asks to be called again, at once or when a rate allows it, for as long as it has left items: those that its calls have
// queued, and those that only a limit kept back.
func TestOnceSaysThatItHasLeftItems(t *testing.T) {
	begun := time.Now()
	two := []pawl.NewItem{{Key: "a"}, {Key: "b"}}
	for name, c := range map[string]struct {
		limits string
		items  []pawl.NewItem
		status int
		ends   bool   // the callee completes its item before it answers
		unread bool   // items cannot be read
		want   string // of each time: the calls, and when to call again
	}{
		"a chain":             {items: []pawl.NewItem{{Key: "a"}, {Key: "b", After: []string{"a"}}}, want: "1 now, 1 now, 0 never, "},
		"a slot":              {limits: `{"concurrency":1}`, items: two, want: "1 now, 1 now, 0 never, "},
		"a slot of a failure": {limits: `{"concurrency":1}`, items: two, status: 503, want: "1 now, 1 now, 0 never, "},
		"a rate":              {limits: `{"rate":{"limit":1,"seconds":60}}`, items: two, want: "1 later, 0 later, 0 later, "},
		"it goes on":          {items: two, status: 202, want: "2 later, 0 never, 0 never, "},
		"it has gone on": {items: []pawl.NewItem{{Key: "a"}, {Key: "b", After: []string{"a"}}}, status: 202, ends: true,
			want: "1 now, 1 now, 0 never, "},
		"it may go on": {items: two, status: 202, unread: true, want: "2 later, 0 never, 0 never, "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
				if c.limits != "" {
					if _, err := p.Service.SetQueue(t.Context(), typ, pawl.QueuePatch(c.limits)); err != nil {
						t.Fatal(err)
					}
				}
				if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: typ, Payload: json.RawMessage("1"), Items: c.items}); err != nil {
					t.Fatal(err)
				}
				pusher := called(t, p, func(w http.ResponseWriter, r *http.Request) {
					var l pawl.Lease
					if err := json.NewDecoder(r.Body).Decode(&l); err != nil {
						t.Error(err)
					}
					if c.ends {
						if _, err := p.Service.Complete(t.Context(), []pawl.CompleteCall{{Fence: l.Fence()}}); err != nil {
							t.Error(err)
						}
					}
					w.WriteHeader(max(c.status, 200))
				})
				if c.unread {
					pusher.o.Service = unread{p.Service}
				}
				got := ""
				for range 3 {
					n, again, err := pusher.Once(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					when := "now"
					if again.IsZero() {
						when = "never"
					} else if again.After(p.Now()) && again.Before(begun) { // the clock of the database is years behind
						when = "later"
					}
					got += fmt.Sprintf("%d %s, ", n, when)
				}
				if got != c.want {
					t.Errorf("%s; want %s", got, c.want)
				}
			})
		})
	}
}
