package server_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// A tick lets the relays deliver, and calls again when one of them may be tried again.
func TestATickDrivesTheRelays(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		var fails error
		again := time.Date(2030, 1, 2, 3, 4, 5, 0, time.FixedZone("", 3600))
		relay := func(ctx context.Context) (int64, time.Time, error) {
			if _, bounded := ctx.Deadline(); !bounded {
				t.Error("a tick may deliver without end")
			}
			return 3, again, fails
		}
		srv := httptest.NewServer(server.New(p.Service, server.Options{Relay: relay}))
		t.Cleanup(srv.Close)
		c := client.New(srv.URL, "")
		got, err := c.Tick(t.Context())
		if err != nil || got.Did.Relayed != 3 || got.NextAt == nil || !got.NextAt.Equal(again) {
			t.Errorf("%+v, %v", got, err)
		}
		delivered, pushing := false, errors.New("the items of one type cannot be claimed")
		both := httptest.NewServer(server.New(p.Service, server.Options{
			Push:  func(context.Context) (int64, time.Time, error) { return 0, time.Time{}, pushing },
			Relay: func(context.Context) (int64, time.Time, error) { delivered = true; return 1, again, nil },
		}))
		t.Cleanup(both.Close)
		if _, err := client.New(both.URL, "").Tick(t.Context()); err == nil || !delivered {
			t.Errorf("when a push fails, relays deliver: %v; the tick: %v", delivered, err)
		}
		fails = errors.New("the state cannot be read")
		if _, err := c.Tick(t.Context()); err == nil || strings.Contains(err.Error(), "state cannot") {
			t.Errorf("with relays that fail: %v", err)
		}
	})
}
