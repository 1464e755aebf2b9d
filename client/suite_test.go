package client_test

import (
	"log/slog"
	"net/http/httptest"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/pawltest/suite"
	"github.com/pawl-work/pawl/server"
)

// What the engine promises in process the client promises over HTTP. One
// database will do: the other differs below the service.
func TestBehaviour(t *testing.T) {
	suite.Run(t, func(t *testing.T) (pawl.Service, suite.Clock) {
		p := pawltest.Open(t, pawltest.SQLite)
		return over(t, p.Service), p
	})
}

// over is a service behind a server.
func over(t *testing.T, svc pawl.Service, o ...client.Options) *client.Client {
	t.Helper()
	srv := httptest.NewServer(server.New(svc, server.Options{Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(srv.Close)
	return client.NewWith(srv.URL, "", append(o, client.Options{})[0])
}
