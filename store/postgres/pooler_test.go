package postgres_test

import (
	"context"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/postgres"
)

// pooler gives each transaction of its clients to the next of its sessions. While it is
// sticky, each client has its own session.
type pooler struct {
	t      *testing.T
	free   chan *pgconn.HijackedConn
	sticky atomic.Bool
	trips  atomic.Int64 // the answers that its clients waited for, but for whether a connection lives
	listen net.Listener
	work   sync.WaitGroup
}

func newPooler(t *testing.T, sessions int, sticky bool) (p *pooler, address string) {
	t.Helper()
	p = &pooler{t: t, free: make(chan *pgconn.HijackedConn, sessions)}
	p.sticky.Store(sticky)
	for range sessions {
		c, err := pgconn.Connect(t.Context(), server(t))
		if err != nil {
			t.Fatal(err)
		}
		h, err := c.Hijack()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = h.Conn.Close() })
		p.free <- h
	}
	var err error
	if p.listen, err = net.Listen("tcp4", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	p.work.Go(func() {
		for {
			c, err := p.listen.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(c) })
		}
	})
	t.Cleanup(func() { _ = p.listen.Close() })
	u, err := url.Parse(server(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Host = p.listen.Addr().String()
	return p, u.String()
}

// serve forwards a client's messages until the client or a server ends.
func (p *pooler) serve(c net.Conn) {
	defer c.Close()
	client := pgproto3.NewBackend(c, c)
	if _, err := client.ReceiveStartupMessage(); err != nil {
		return
	}
	client.Send(&pgproto3.AuthenticationOk{})
	for name, value := range map[string]string{"server_version": "15.0", "client_encoding": "UTF8", "standard_conforming_strings": "on"} {
		client.Send(&pgproto3.ParameterStatus{Name: name, Value: value})
	}
	client.Send(&pgproto3.BackendKeyData{ProcessID: 1, SecretKey: []byte{0, 0, 0, 1}})
	client.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	var of *pgconn.HijackedConn
	defer func() {
		if of != nil {
			p.free <- of
		}
	}()
	for client.Flush() == nil {
		m, err := client.Receive()
		if _, over := m.(*pgproto3.Terminate); err != nil || over {
			return
		}
		if of == nil {
			of = <-p.free
		}
		of.Frontend.Send(m)
		switch m := m.(type) {
		case *pgproto3.Sync:
			p.trips.Add(1)
		case *pgproto3.Query:
			if m.String != "SELECT pg_backend_pid()" {
				p.trips.Add(1)
			}
		default:
			continue
		}
		if of.Frontend.Flush() != nil {
			return
		}
		for ready := false; !ready; {
			answer, err := of.Frontend.Receive()
			if err != nil {
				return
			}
			client.Send(answer)
			if r, ok := answer.(*pgproto3.ReadyForQuery); ok {
				if ready = true; r.TxStatus == 'I' && !p.sticky.Load() {
					p.free <- of
					of = nil
				}
			}
		}
	}
}

func advises(err error) bool {
	return err != nil && strings.Contains(err.Error(), "pool_mode=transaction") && !strings.Contains(err.Error(), "backup")
}

// A pooler that distributes the statements of one connection over several sessions is found
// at the start, whatever the number of its sessions, and then nothing relies on a session.
func TestAPoolerOfTransactionsIsFound(t *testing.T) {
	h := newDatabase(t)
	for _, sessions := range []int{2, 3, 8} {
		_, address := newPooler(t, sessions, false)
		db, err := postgres.Open(t.Context(), address, postgres.Options{Schema: h.schema, Log: quiet})
		if err != nil {
			t.Fatalf("%d sessions: %v", sessions, err)
		}
		if db.Dialect().Listens {
			t.Errorf("%d sessions: it listens", sessions)
		}
		for range 20 {
			for _, run := range []func(context.Context, func(context.Context, store.Tx) error) error{db.Auto, db.Do, db.Whole, db.View} {
				if err := run(t.Context(), func(ctx context.Context, tx store.Tx) error {
					var level, plans string
					_, err := store.Row(ctx, tx, []any{&level, &plans}, "SELECT current_setting('statement_timeout'), current_setting('jit')")
					if level == "0" || plans != "off" {
						t.Errorf("settings %s, %s", level, plans)
					}
					return err
				}); err != nil {
					t.Fatalf("%d sessions: %v", sessions, err)
				}
			}
		}
		if _, err := db.Dialect().Migrator.Up(t.Context()); err != nil {
			t.Errorf("%d sessions: %v", sessions, err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
		keepsNothing(t, address)
	}
}

// keepsNothing looks at the next session of a pooler as another program does.
func keepsNothing(t *testing.T, address string) {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	results, err := c.Exec(t.Context(), "SELECT name FROM pg_settings WHERE source = 'session' AND name <> 'client_encoding' "+
		"UNION ALL SELECT name FROM pg_prepared_statements WHERE statement NOT LIKE '%pg_settings%' AND name <> '' "+
		"UNION ALL SELECT 'a lock' FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()").ReadAll()
	if err != nil || len(results) != 1 || len(results[0].Rows) > 0 {
		t.Errorf("a session keeps %s, %v", results[0].Rows, err)
	}
}

// With pool_mode=session such a pooler is refused.
func TestAPoolerOfTransactionsIsRefused(t *testing.T) {
	for _, sessions := range []int{1, 2, 3, 8} {
		_, address := newPooler(t, sessions, false)
		u, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		q := u.Query()
		q.Set("pool_mode", "session")
		u.RawQuery = q.Encode()
		db, err := postgres.Open(t.Context(), u.String(), postgres.Options{Log: quiet})
		if err == nil {
			_ = db.Close()
		}
		if pawl.CodeOf(err) != pawl.CodeInvalid || !advises(err) {
			t.Errorf("%d sessions: %v", sessions, err)
		}
	}
}

// A pooler that begins to do so later is recognised by its first symptom, and the error
// does not advise to restore a backup.
func TestAPoolerIsRecognisedLater(t *testing.T) {
	h := newDatabase(t)
	p, address := newPooler(t, 8, true)
	db, err := postgres.Open(t.Context(), address, postgres.Options{Schema: h.schema, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	ask := func() error {
		return db.View(t.Context(), func(ctx context.Context, tx store.Tx) error { _, err := tx.Now(ctx); return err })
	}
	if err := ask(); err != nil {
		t.Fatal(err)
	}
	p.sticky.Store(false)
	seen := func(what string, run func() error) {
		t.Helper()
		for range 50 {
			if err := run(); err != nil {
				if !advises(err) {
					t.Errorf("%s: %v", what, err)
				}
				return
			}
		}
		t.Errorf("%s: not recognised", what)
	}
	seen("a call", ask)
	seen("a migration", func() error { _, err := db.Dialect().Migrator.Up(t.Context()); return err })
}
