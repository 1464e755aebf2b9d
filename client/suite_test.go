package client_test

import (
	"log/slog"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/pawltest/scenario"
	"github.com/pawl-work/pawl/pawltest/suite"
	"github.com/pawl-work/pawl/server"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(serveURL); url != "" {
		panic(beServer(url, os.Getenv(serveURL+"_SCHEMA")))
	}
	pawltest.Main(m)
}

// The client keeps over HTTP every promise that the engine keeps in process. The engine has passed all of them on both
// databases, and the client does not know which one is there.
func TestBehaviour(t *testing.T) {
	t.Cleanup(func() { stopProxy() })
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			run := suite.Run
			if which == pawltest.Postgres {
				run = suite.RunTimed
			}
			run(t, func(t *testing.T) (pawl.Service, suite.Clock) {
				p := pawltest.Open(t, which)
				o := client.Options{}
				if which == pawltest.SQLite {
					o.HTTP = judged(t)
				}
				return over(t, p.Service, o), p
			})
		})
	}
}

// Conversations go over HTTP as they do in process.
func TestScenarios(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			scenario.Run(t, func(t *testing.T) (pawl.Service, pawltest.Clock, func() pawl.Service) {
				p := pawltest.Open(t, which)
				return over(t, p.Service), p, func() pawl.Service { return over(t, p.Another(engine.Options{})) }
			}, "")
		})
	}
}

// over is a client of a service behind a server.
func over(t *testing.T, svc pawl.Service, o ...client.Options) *client.Client {
	t.Helper()
	srv := httptest.NewServer(server.New(svc, server.Options{Log: slog.New(slog.DiscardHandler)}))
	t.Cleanup(srv.Close)
	return client.NewWith(srv.URL, "", append(o, client.Options{})[0])
}
