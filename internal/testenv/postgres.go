package main

import (
	"context"
	"os"

	"github.com/pawl-work/pawl/internal/testserver"
)

// poolerSessions is how many sessions of the server the pooler has for all tests.
const poolerSessions = 4

// startPostgres starts PostgreSQL and the pooler in front of it, if the environment does not name
// them, and adds their URLs to env.
func startPostgres(ctx context.Context, env []string, report *Report) (with []string, stop func()) {
	var stops []func() error
	stop = func() {
		for i := len(stops) - 1; i >= 0; i-- {
			if err := stops[i](); err != nil {
				note("%v", err)
			}
		}
	}
	url := os.Getenv("PAWL_TEST_POSTGRES")
	if url == "" {
		server, err := testserver.Start(ctx, testserver.Options{})
		if err != nil {
			report.CouldNot("PostgreSQL", err.Error())
			return env, stop
		}
		note("PostgreSQL %s in %s", server.Version, server.Dir)
		stops, url = append(stops, server.Stop), server.URL
		env = append(env, "PAWL_TEST_POSTGRES="+url)
	}
	if os.Getenv("PAWL_TEST_POOLER") == "" {
		pooler, err := testserver.NewPooler(ctx, url, poolerSessions)
		if err != nil {
			report.CouldNot("PgBouncer", err.Error())
			return env, stop
		}
		note("PgBouncer in %s", pooler.Dir)
		stops = append(stops, pooler.Stop)
		env = append(env, "PAWL_TEST_POOLER="+pooler.URL)
	}
	return env, stop
}
