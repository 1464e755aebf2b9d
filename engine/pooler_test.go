package engine_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/testserver"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/worker"
)

// pooled returns the URL of a pooler of transactions, and a schema behind it.
func pooled(t *testing.T) (pooler, server, schema string) {
	t.Helper()
	if pooler = os.Getenv("PAWL_TEST_POOLER"); pooler == "" {
		const why = "PAWL_TEST_POOLER names no pooler in front of the PostgreSQL server"
		if os.Getenv("CI") == "true" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
	server, schema = pawltest.Place(t, pawltest.Postgres)
	return pooler, server, schema
}

// Behind a pooler of transactions an engine does everything, also when it has to find out what it is,
// and leaves no setting, prepared statement or lock on a session, where another program would meet it.
func TestBehindAPoolerOfTransactions(t *testing.T) {
	t.Parallel()
	for name, params := range map[string][]string{
		"stated":    {"pool_mode", "transaction"},
		"found out": {},
		"two":       {"max_conns", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			pooler, _, schema := pooled(t)
			e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), with(t, pooler, params...), engine.Options{Schema: schema}))
			if e.Hears() {
				t.Error("it listens")
			}
			everything(t, e)
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			clean(t, pooler)
		})
	}
}

// clean looks at the sessions of a pooler as another program does.
func clean(t *testing.T, pooler string) {
	t.Helper()
	config := need[*pgx.ConnConfig](t)(pgx.ParseConfig(pooler))
	config.DefaultQueryExecMode = pgx.QueryExecModeExec
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			c, err := pgx.ConnectConfig(t.Context(), config)
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close(context.Background())
			var settings, statements, locks, channels int
			if err := c.QueryRow(t.Context(), `SELECT (SELECT COUNT(*) FROM pg_settings WHERE source = 'session' AND name NOT IN
				('client_encoding', 'DateStyle', 'TimeZone', 'standard_conforming_strings', 'application_name')),
				(SELECT COUNT(*) FROM pg_prepared_statements WHERE statement NOT LIKE '%pg_prepared_statements%'),
				(SELECT COUNT(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
				(SELECT COUNT(*) FROM pg_listening_channels())`).Scan(&settings, &statements, &locks, &channels); err != nil {
				t.Error(err)
			} else if settings+statements+locks+channels > 0 {
				t.Errorf("a session keeps %d settings, %d statements, %d locks and %d channels", settings, statements, locks, channels)
			}
		})
	}
	all.Wait()
}

// With a URL for LISTEN, an engine behind a pooler hears of the work of other processes.
func TestAnEngineBehindAPoolerListensElsewhere(t *testing.T) {
	t.Parallel()
	pooler, server, schema := pooled(t)
	open := func(o engine.Options, params ...string) *engine.Engine {
		o.Schema, o.PollInterval = schema, time.Hour
		e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), with(t, pooler, append(params, "pool_mode", "transaction")...), o))
		t.Cleanup(func() { _ = e.Close() })
		return e
	}
	writer := open(engine.Options{})
	for _, e := range []*engine.Engine{open(engine.Options{ListenURL: server}), open(engine.Options{}, "listen_url", server)} {
		until(t, "it does not listen", e.Hears)
		if e.Told() {
			t.Fatal("it was told of nothing")
		}
		need[pawl.Task](t)(pawl.Create(t.Context(), writer, pawl.NewTask{Type: "heard"}))
		until(t, "no notice was heard", e.Told)
	}
}

// An engine can use the connections of the program that embeds it. They keep the program's settings.
func TestAnEngineOnTheProgramsPool(t *testing.T) {
	t.Parallel()
	server, schema := pawltest.Place(t, pawltest.Postgres)
	own := need[*pgxpool.Pool](t)(pgxpool.New(t.Context(), with(t, server, "statement_timeout", "54321", "plan_cache_mode", "auto",
		"pool_max_conns", "5", "application_name", schema)))
	defer own.Close()
	stop := backends(t, server, schema)
	e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), "postgres:", engine.Options{Schema: schema, Pool: own}))
	everything(t, e)
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if most := stop(); most > 5 || most == 0 {
		t.Errorf("%d connections of at most 5", most)
	}
	for _, c := range own.AcquireAllIdle(t.Context()) {
		var timeout, plans string
		if err := c.QueryRow(t.Context(), "SELECT current_setting('statement_timeout'), current_setting('plan_cache_mode')").
			Scan(&timeout, &plans); err != nil || timeout != "54321ms" || plans != "auto" {
			t.Errorf("a connection of the program has %s, %s, %v", timeout, plans, err)
		}
		c.Release()
	}
}

// Transactions of the program that have all connections of the pool that it has lent do in themselves what is done
// beside them otherwise: new names, blobs, keys with limits. Each waited for a connection that the others had.
func TestOwnTransactionsHaveAllConnectionsOfThePool(t *testing.T) {
	t.Parallel()
	server, schema := pawltest.Place(t, pawltest.Postgres)
	own := need[*pgxpool.Pool](t)(pgxpool.New(t.Context(), with(t, server, "pool_max_conns", "5")))
	defer own.Close()
	e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), "postgres:", engine.Options{Schema: schema, Pool: own}))
	defer e.Close()
	need[pawl.Queue](t)(e.SetQueue(t.Context(), "limited", pawl.QueuePatch(`{"per_key":{"pointer":"/k","concurrency":1}}`)))
	for _, typ := range []string{"a", "limited"} { // two transactions that have the same new name wait for each other
		need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: typ, Payload: []byte(`{"k":"first"}`)}))
	}
	var txs []pgx.Tx
	var works [][]pawl.NewTask
	for i := range 5 {
		blob := need[pawl.Blob](t)(e.PutBlob(t.Context(), pawl.BlobUpload{Content: strings.NewReader(fmt.Sprint("bytes ", i))}))
		works = append(works, []pawl.NewTask{{Type: fmt.Sprint("new", i)}, {Type: "limited", Payload: fmt.Appendf(nil, `{"k":"%d"}`, i)},
			{Type: "a", Payload: fmt.Appendf(nil, `{"$blob":%q}`, blob.Address)}})
	}
	for range works {
		tx := need[pgx.Tx](t)(own.Begin(t.Context()))
		defer func() { _ = tx.Rollback(context.Background()) }()
		txs = append(txs, tx)
	}
	soon(t, "work in all transactions", func(ctx context.Context) error {
		for i, tx := range txs {
			for _, work := range works[i] {
				if _, err := e.In(tx).Create(ctx, work); err != nil {
					return fmt.Errorf("%s: %w", work.Type, err)
				}
			}
		}
		return nil
	})
	for _, tx := range txs {
		ok(t, tx.Commit(t.Context()))
	}
	if n := len(need[pawl.List[pawl.Task]](t)(e.ListTasks(t.Context(), pawl.TaskFilter{})).Items); n != 17 {
		t.Errorf("%d tasks", n)
	}
}

// Nor do they wait for one to look at the schema, which an old snapshot may not have.
func TestStrictTransactionsHaveAllConnectionsOfThePool(t *testing.T) {
	t.Parallel()
	server, schema := pawltest.Place(t, pawltest.Postgres)
	own := need[*pgxpool.Pool](t)(pgxpool.New(t.Context(), with(t, server, "pool_max_conns", "3")))
	defer own.Close()
	e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), "postgres:", engine.Options{Schema: schema, Pool: own}))
	defer e.Close()
	need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "a"}))
	var txs []pgx.Tx
	for range 3 {
		tx := need[pgx.Tx](t)(own.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead}))
		defer func() { _ = tx.Rollback(context.Background()) }()
		txs = append(txs, tx)
	}
	soon(t, "a task in all transactions", func(ctx context.Context) error {
		for _, tx := range txs {
			if _, err := e.In(tx).Create(ctx, pawl.NewTask{Type: "a"}); err != nil {
				return err
			}
		}
		return nil
	})
}

// A pooler that crashes, and a database that restarts, lose nothing and repeat nothing while work goes on.
func TestRestartsInTheMiddleOfWork(t *testing.T) {
	t.Parallel()
	if _, err := testserver.FindPgBouncer(); err != nil {
		t.Skip(err)
	}
	server := need[*testserver.Server](t)(testserver.Start(t.Context(), testserver.Options{}))
	defer func() { _ = server.Stop() }()
	broker := need[*testserver.Broker](t)(testserver.NewPooler(t.Context(), server.URL, 4))
	defer func() { _ = broker.Stop() }()
	e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), with(t, broker.URL, "pool_mode", "transaction", "max_conns", "4"),
		engine.Options{Log: slog.New(slog.DiscardHandler)}))
	defer func() { _ = e.Close() }()

	ctx, cancel := context.WithCancel(t.Context())
	var background, calls sync.WaitGroup
	background.Go(func() { _ = e.Run(ctx) })
	background.Go(func() {
		_ = worker.RunWith(ctx, e, worker.Options{Concurrency: 4, LeaseSeconds: 5, WaitSeconds: 1},
			worker.Handle("t", func(context.Context, pawl.Lease) (any, error) { return nil, nil }))
	})
	const callers, each = 4, 60
	var made atomic.Int64
	for i := range callers {
		calls.Go(func() {
			for j := range each {
				key := fmt.Sprint(i, "-", j)
				for { // a call that was not answered is made again, with its key
					_, err := pawl.Create(ctx, e, pawl.NewTask{Type: "t", InputHash: key})
					if err == nil {
						break
					}
					if pawl.CodeOf(err) != pawl.CodeUnavailable && !errors.Is(err, pawl.ErrUnavailable) {
						t.Errorf("create %s: %v", key, err)
						return
					}
				}
				made.Add(1)
			}
		})
	}
	until(t, "nothing was made", func() bool { return made.Load() > callers*each/6 })
	broker.Kill()
	if err := errors.Join(broker.Start(), broker.Ready(ctx)); err != nil {
		t.Fatal(err)
	}
	until(t, "nothing was made after the pooler's restart", func() bool { return made.Load() > callers*each/2 })
	if err := server.Restart(ctx); err != nil {
		t.Fatal(err)
	}
	calls.Wait()
	until(t, "some tasks do not end", func() bool {
		page, err := e.ListTasks(ctx, pawl.TaskFilter{States: []pawl.TaskState{pawl.TaskCompleted}, Page: pawl.Page{Limit: 1000}})
		return err == nil && len(page.Items) == callers*each
	})
	cancel()
	background.Wait()
	all := need[pawl.List[pawl.Task]](t)(e.ListTasks(t.Context(), pawl.TaskFilter{Page: pawl.Page{Limit: 1000}}))
	if len(all.Items) != callers*each {
		t.Errorf("%d tasks of %d", len(all.Items), callers*each)
	}
	if r, err := e.Doctor(t.Context(), pawl.DoctorCall{}); err != nil || len(r.Breaches) > 0 {
		t.Error(r.Breaches, err)
	}
}
