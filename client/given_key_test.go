package client_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// A call that is made again and again is carried out each time, also under a key: the client sends none, and the server
// ignores one.
func TestRenewalsAreNotReplayed(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		sent := map[string]bool{}
		h := server.New(p.Engine, server.Options{Log: slog.New(slog.DiscardHandler)})
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			sent[r.URL.Path] = r.Header.Get("Idempotency-Key") != ""
			if strings.HasSuffix(r.URL.Path, "items:heartbeat") { // as another client may
				r.Header.Set("Idempotency-Key", "order-7")
			}
			h.ServeHTTP(w, r)
		}))
		defer srv.Close()
		c, ctx := client.New(srv.URL, ""), client.WithKey(t.Context(), "order-7")
		pawltest.Must[pawl.Task](t)(pawl.Create(ctx, c, pawl.NewTask{Type: "a"}))
		l := pawltest.NewCalls(t, c).Claim("a")
		var until time.Time
		for range 2 {
			b := pawltest.Must[pawl.Beat](t)(pawltest.First(c.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: l.Fence()}})))
			if !b.LeaseExpiresAt.After(until) {
				t.Errorf("the lease ends at %v, as before", b.LeaseExpiresAt)
			}
			until = b.LeaseExpiresAt
			p.Advance(time.Second)
		}
		runs := 0
		for range 2 {
			b, err := pawltest.First(c.BeginKeys(ctx, []pawl.KeyBegin{{Scope: "once", Key: "pay", RequestHash: "h"}}))
			if err == nil && b.Run {
				runs++
			}
		}
		if runs != 1 {
			t.Errorf("%d callers were told to run", runs)
		}
		if sent["/v1/items:heartbeat"] || sent["/v1/idempotency-keys:begin"] || !sent["/v1/tasks"] && !sent["/v1/tasks:batch"] {
			t.Errorf("keys were sent with %v", sent)
		}
	})
}
