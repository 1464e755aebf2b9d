// Package pawltest gives each test its own Pawl: an engine over an empty database, with a
// clock that the test moves.
//
//	func TestMine(t *testing.T) {
//		pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
//			task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a"})
//			…
//			p.Advance(5 * time.Minute) // every lease of five minutes is over now
//		})
//	}
//
// When the test ends, the invariants of the database are checked (engine.Check). A violation
// fails the test.
package pawltest

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/store"
)

// Database names the kind of database of an engine.
type Database string

// These are the databases. Postgres is the server whose URL is in the environment variable
// PAWL_TEST_POSTGRES. Without it, tests are skipped, or fail if CI=true.
const (
	SQLite   Database = "sqlite"
	Postgres Database = "postgres"
	// Pooled is Postgres behind a pooler that gives each transaction to any of its sessions. The URL
	// there is in the environment variable PAWL_TEST_POOLER. It is not one of Databases.
	Pooled Database = "pooled"
	// Prefixed is SQLite with Pawl's tables in an application's file, which has tables of the same names
	// without the prefix. It is not one of Databases.
	Prefixed Database = "prefixed"
)

// Databases lists all databases, in the order in which Each runs them.
var Databases = []Database{SQLite, Postgres}

// Start is the first time of the clock of Open.
var Start = time.Date(2026, 1, 29, 10, 0, 0, 0, time.UTC)

// Clock is a database's clock in a test. Only Advance moves it.
type Clock interface {
	Now() time.Time
	Advance(d time.Duration)
}

// Pawl is an engine over a database of its own, for one test, and that database's Clock.
type Pawl struct {
	*Calls   // of Service, that the test expects to succeed
	Engine   *engine.Engine
	Service  pawl.Service // the same engine
	Database Database
	URL      string // for engine.Open, with Schema
	Schema   string // "" on SQLite: the file is the test's own

	t      testing.TB
	schema *schema // nil on SQLite
	kept   *kept   // the database of the pool; nil = it is not of the pool
	flows  bool    // it uses the machine's clock

	checks engine.Options // of the engine that checks the database when the test ends; without a DB it is Engine

	tampered bool

	moved bool // Moved was called

	analyzed bool // the planner has statistics that the test wanted

	mu sync.Mutex
	at time.Time
}

var _ Clock = (*Pawl)(nil)

// Open returns a new engine whose clock only Advance moves. Nothing runs in the background:
// call Service.Sweep, or Engine.Run in a goroutine.
func Open(t testing.TB, which Database) *Pawl {
	t.Helper()
	return open(t, which, engine.Options{}, false, false)
}

// OpenWith is Open with options. It sets Schema, and Clock unless it is given.
func OpenWith(t testing.TB, which Database, o engine.Options) *Pawl {
	t.Helper()
	return open(t, which, o, false, false)
}

// OpenNew is OpenWith with a database that no other test uses. Tests of many rows need it: a
// prepared statement of a test before may have a plan for few.
func OpenNew(t testing.TB, which Database, o engine.Options) *Pawl {
	t.Helper()
	return open(t, which, o, false, true)
}

// OpenReal is Open on the machine's clock, for tests with other processes; o holds at most one
// Options. Advance and Now then fail the test.
func OpenReal(t testing.TB, which Database, o ...engine.Options) *Pawl {
	t.Helper()
	return open(t, which, append(o, engine.Options{})[0], true, false)
}

// Each runs a test on every database, as parallel subtests.
func Each(t *testing.T, fn func(t *testing.T, p *Pawl)) {
	t.Helper()
	for _, which := range Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			fn(t, Open(t, which))
		})
	}
}

func open(t testing.TB, which Database, o engine.Options, flows, own bool) *Pawl {
	t.Helper()
	p := &Pawl{t: t, Database: which, at: Start, flows: flows}
	if which == Prefixed {
		p.Database = SQLite
	}
	var k *kept
	if !own && keptOptions(o) {
		k = take(t, kind{which, flows})
	}
	switch {
	case k != nil:
		p.URL, p.schema = k.url, k.schema
		t.Cleanup(func() { k.release(p.sound()) })
	case which.local():
		p.URL = which.sqliteURL(freshFile(t, which))
	case which == Postgres, which == Pooled:
		p.URL, p.schema = which.fresh(t, !own)
		t.Cleanup(func() { p.must(p.schema.release(!own && p.sound())) })
	default:
		t.Fatalf("pawltest: no database %q", which)
	}
	if p.schema != nil {
		p.Schema = p.schema.name
	}
	if k != nil {
		k.lend(&o, p.now())
		p.kept = k
	} else if which == Postgres && !own {
		p.checks = p.schema.checks(t, p.URL, o)
	}
	p.Engine = p.Another(o)
	p.Service = p.Engine
	p.Calls = NewCalls(t, p.Service)
	if p.schema != nil && flows {
		p.must(p.schema.letClockRun())
	} else if p.schema != nil {
		p.must(p.schema.holdClock(p.at.UnixMicro()))
	}
	t.Cleanup(p.check)
	return p
}

// Another opens a further engine on the same database and closes it when the test ends. On
// SQLite it has the same clock unless the options set one.
func (p *Pawl) Another(o engine.Options) *engine.Engine {
	p.t.Helper()
	if k := p.kept; k != nil && p.URL == k.url && o.Identity == "" && keptOptions(o) {
		p.must(k.another(&o, p.now()))
	}
	o.Schema = p.Schema
	o.Identity = cmp.Or(o.Identity, engine.IdentityTrust) // its databases are copies
	if p.Database == SQLite && !p.flows && o.Clock == nil {
		o.Clock = p.Now
	}
	e, err := engine.OpenWith(context.Background(), p.URL, o)
	if err != nil {
		p.t.Fatalf("pawltest: open %s: %v", p.Database, err)
	}
	p.t.Cleanup(func() { p.must(e.Close()) })
	return e
}

// Now returns the time of the clock, in UTC.
func (p *Pawl) Now() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flows {
		p.t.Fatal("pawltest: Now on the machine's clock")
	}
	return p.at
}

// now returns the clock of SQLite.
func (p *Pawl) now() func() time.Time {
	if p.flows {
		return clock.Now
	}
	return p.Now
}

// Advance moves the clock; a negative duration moves it back.
func (p *Pawl) Advance(d time.Duration) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.flows {
		p.t.Fatal("pawltest: Advance on the machine's clock")
	}
	p.at = p.at.Add(d)
	if p.schema != nil {
		p.must(p.schema.exec(`UPDATE test_clock SET at = $1`, p.at.UnixMicro()))
	}
}

// Exec runs SQL without the engine's checks, as a user of a database shell would. Tables are
// named with the prefix "pawl." on both databases; ids are texts.
func (p *Pawl) Exec(query string, args ...any) error {
	p.analyzed = p.analyzed || strings.HasPrefix(query, "ANALYZE")
	return p.Engine.DB().Do(context.Background(), func(ctx context.Context, tx store.Tx) error {
		query, args := SQL(query, args...)
		_, err := tx.Exec(ctx, query, args...)
		return err
	})
}

func (p *Pawl) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatalf("pawltest: %v", err)
	}
}

// Tampered says that the test changes events or their log directly: the log and the totals are not
// checked when the test ends.
func (p *Pawl) Tampered() { p.tampered = true }

// Moved says that the test moves the database, or a namespace of it, away: it is not checked when the test ends.
func (p *Pawl) Moved() { p.moved = true }

// sound reports whether a further test can use the database, once its rows are reset.
func (p *Pawl) sound() bool { return !p.t.Failed() && !p.moved && !p.analyzed }

// check checks the invariants and the transparency log of the database.
func (p *Pawl) check() {
	if p.moved {
		return
	}
	e := p.Engine
	if p.checks.DB != nil {
		e = p.Another(p.checks)
	} else if p.kept != nil && p.Database == Postgres {
		db := p.schema.checked(p.t, p.URL)
		p.kept.lent.views.Store(&db)
	}
	p.noteMoves(e)
	breaches, err := e.Check(context.Background())
	if err != nil {
		p.t.Errorf("pawltest: check: %v", err)
	}
	breaches = slices.DeleteFunc(breaches, func(b engine.Breach) bool { return b.Rule == store.RuleArchive }) // tests damage archives
	var broken []engine.Breach
	if p.tampered {
		breaches = slices.DeleteFunc(breaches, func(b engine.Breach) bool { return b.Rule == "totals" })
	} else {
		if broken, _, err = e.CheckLog(context.Background(), -1); err != nil {
			p.t.Errorf("pawltest: check of the log: %v", err)
		}
	}
	for _, b := range append(breaches, broken...) {
		p.t.Errorf("pawltest: rule %q is broken by %s: %s", b.Rule, b.Subject, b.Found)
	}
}
