package engine_test

import (
	"errors"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// place is a database that is copied: its URL, and how to open it.
type place struct {
	t           *testing.T
	url, schema string
}

func newPlace(t *testing.T, which pawltest.Database) place {
	url, schema := pawltest.Place(t, which)
	return place{t, url, schema}
}

func (p place) open() *engine.Engine {
	p.t.Helper()
	e, err := engine.OpenWith(p.t.Context(), p.url, engine.Options{Schema: p.schema, Identity: "check",
		Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		p.t.Fatalf("open %s: %v", p.url, err)
	}
	p.t.Cleanup(func() { _ = e.Close() })
	return e
}

// use opens the database, does something and closes it.
func (p place) use(fn func(e *engine.Engine)) {
	p.t.Helper()
	e := p.open()
	fn(e)
	if err := e.Close(); err != nil {
		p.t.Fatal(err)
	}
}

func (p place) file() string { return strings.TrimPrefix(p.url, "sqlite:") }

// copied copies a closed database as `cp` does.
func (p place) copied() place {
	p.t.Helper()
	to := filepath.Join(p.t.TempDir(), "copy.db")
	copyFile(p.t, p.file(), to)
	return place{p.t, "sqlite:" + to, ""}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err == nil {
		err = os.WriteFile(to, b, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// at is the same PostgreSQL database under another name.
func (p place) at(host string) place {
	u, err := url.Parse(p.url)
	if err != nil {
		p.t.Fatal(err)
	}
	u.Host = host + ":" + u.Port()
	return place{p.t, u.String(), p.schema}
}

func quarantined(t *testing.T, e *engine.Engine) bool {
	t.Helper()
	s, err := e.Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Quarantined != (s.Why != nil) || s.Quarantined != e.Quarantined() {
		t.Fatalf("the state contradicts itself: %+v", s)
	}
	return s.Quarantined
}

func makeTask(t *testing.T, e *engine.Engine, typ string) pawl.Task {
	t.Helper()
	task, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: typ})
	if err != nil {
		t.Fatal(err)
	}
	return task
}

func TestACopyOfAFileKeepsStillUntilItIsAdopted(t *testing.T) {
	p := newPlace(t, pawltest.SQLite)
	var held []pawl.Lease
	p.use(func(e *engine.Engine) {
		if quarantined(t, e) {
			t.Fatal("the original is quarantined")
		}
		makeTask(t, e, "a")
		makeTask(t, e, "a")
		var err error
		if held, err = e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 1}); err != nil || len(held) != 1 {
			t.Fatalf("the original: %v, %v", held, err)
		}
	})
	c := p.copied()
	e := c.open()
	if !quarantined(t, e) {
		t.Fatal("the copy is not quarantined")
	}
	_, err := e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 1})
	if !errors.Is(err, pawl.ErrQuarantined) || !strings.Contains(err.Error(), "`pawl adopt`") ||
		!strings.Contains(err.Error(), "`pawl adopt --as-copy`") {
		t.Fatalf("a claim of the copy: %v", err)
	}
	made := makeTask(t, e, "b")
	if _, err := e.GetTask(t.Context(), made.ID); err != nil {
		t.Errorf("a read: %v", err)
	}
	out, err := e.Adopt(t.Context(), false)
	if err != nil || out.Adopted == nil || *out.Adopted != "original" || out.Epoch != 1 || out.LeasesEnded != 1 {
		t.Fatalf("adopted: %+v, %v", out, err)
	}
	if _, err := e.CheckToken(t.Context(), held[0].Token); err == nil {
		t.Error("a token of the original is valid in the copy")
	}
	got, err := e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Limit: 9})
	if err != nil || len(got) != 3 {
		t.Fatalf("after the adoption: %d, %v", len(got), err)
	}
	again, err := e.Adopt(t.Context(), true)
	if err != nil || again.Adopted != nil || again.Epoch != 1 || e.Quarantined() {
		t.Errorf("adopted again: %+v, %v", again, err)
	}
	_ = e.Close()
	c.use(func(e *engine.Engine) {
		if quarantined(t, e) {
			t.Error("the adopted copy is quarantined")
		}
	})
	p.use(func(e *engine.Engine) {
		if quarantined(t, e) {
			t.Error("the original is quarantined")
		}
	})
}

func TestWhichFilesAreCopies(t *testing.T) {
	moved := func(t *testing.T, p place, with ...string) place {
		to := filepath.Join(t.TempDir(), "moved.db")
		for _, suffix := range append(with, "") {
			if err := os.Rename(p.file()+suffix, to+suffix); err != nil {
				t.Fatal(err)
			}
		}
		return place{t, "sqlite:" + to, ""}
	}
	for name, c := range map[string]struct {
		copy bool
		do   func(t *testing.T, p place) place
	}{
		"the same":                      {false, func(_ *testing.T, p place) place { return p }},
		"moved with the file beside it": {false, func(t *testing.T, p place) place { return moved(t, p, ".place") }},
		"moved alone":                   {true, func(t *testing.T, p place) place { return moved(t, p) }},
		"copied":                        {true, func(_ *testing.T, p place) place { return p.copied() }},
		"copied with the file beside it": {true, func(t *testing.T, p place) place {
			c := p.copied()
			copyFile(t, p.file()+".place", c.file()+".place")
			return c
		}},
		"replaced by a copy of itself": {true, func(t *testing.T, p place) place {
			c := p.copied()
			if err := os.Rename(c.file(), p.file()); err != nil {
				t.Fatal(err)
			}
			return p
		}},
		"a backup in its place": {true, func(t *testing.T, p place) place {
			to := filepath.Join(t.TempDir(), "backup.db")
			p.use(func(e *engine.Engine) {
				if err := e.Backup(t.Context(), to); err != nil {
					t.Fatal(err)
				}
			})
			copyFile(t, to, p.file())
			return p
		}},
		"a link": {false, func(t *testing.T, p place) place {
			to := filepath.Join(t.TempDir(), "link.db")
			if err := os.Symlink(p.file(), to); err != nil {
				t.Fatal(err)
			}
			return place{t, "sqlite:" + to, ""}
		}},
		"the file beside it is lost": {true, func(t *testing.T, p place) place {
			if err := os.Remove(p.file() + ".place"); err != nil {
				t.Fatal(err)
			}
			return p
		}},
		"expected": {false, func(t *testing.T, p place) place {
			to := filepath.Join(t.TempDir(), "expected.db")
			p.use(func(e *engine.Engine) {
				if err := e.ExpectPlace(t.Context(), "sqlite:"+to); err != nil {
					t.Fatal(err)
				}
			})
			copyFile(t, p.file(), to)
			return place{t, "sqlite:" + to, ""}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, pawltest.SQLite)
			p.use(func(e *engine.Engine) { makeTask(t, e, "a") })
			c.do(t, p).use(func(e *engine.Engine) {
				if got := quarantined(t, e); got != c.copy {
					t.Errorf("quarantined: %v", got)
				}
			})
		})
	}
}

// Engines that open a new database at the same time agree about its place.
func TestManyEnginesBeginAPlace(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := newPlace(t, which)
			engines := make([]*engine.Engine, 8)
			var all sync.WaitGroup
			for i := range engines {
				all.Go(func() { engines[i] = p.open() })
			}
			all.Wait()
			for i, e := range engines {
				if s, err := e.Identity(t.Context()); err != nil || s.Quarantined || len(s.KnownPlaces) != 1 {
					t.Errorf("engine %d: %+v, %v", i, s, err)
				}
			}
		})
	}
}

func TestAnotherNameOfTheSameDatabase(t *testing.T) {
	t.Parallel()
	p := newPlace(t, pawltest.Postgres)
	if !strings.Contains(p.url, "127.0.0.1") {
		t.Skip("the server has no second name")
	}
	first := p.open()
	other := p.at("localhost").open()
	if !quarantined(t, other) { // first does not run
		t.Fatal("nobody has answered, and it is not quarantined")
	}
	if out, err := other.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"}); !errors.Is(err, pawl.ErrQuarantined) {
		t.Errorf("a claim: %v, %v", out, err)
	}
	go func() { _ = first.Run(t.Context()) }()
	for end := time.Now().Add(30 * time.Second); other.Quarantined(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("an engine at the known place runs, and does not answer")
		}
	}
	s, err := other.Identity(t.Context())
	if err != nil || len(s.KnownPlaces) != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	third := p.at("localhost").open()
	if third.Quarantined() {
		t.Error("the name is not remembered")
	}
}

// A database that is made from another one as a template is a copy. Several hosts in one URL are one
// place, in any order.
func TestACopyOnTheSameServerKeepsStill(t *testing.T) {
	t.Parallel()
	base := pawltest.Server(t)
	conn, err := pgx.Connect(t.Context(), base)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	in := func(name string) place {
		u, _ := url.Parse(base)
		u.Path = name
		return place{t, u.String(), "pawl"}
	}
	exec := func(query string) {
		if _, err := conn.Exec(t.Context(), query); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	const one, two = "pawl_place_one", "pawl_place_two"
	for _, name := range []string{two, one} {
		exec("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)")
		defer func() { _, _ = conn.Exec(t.Context(), "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)") }()
	}
	exec("CREATE DATABASE " + one)
	in(one).use(func(e *engine.Engine) { makeTask(t, e, "a") })
	exec("CREATE DATABASE " + two + " TEMPLATE " + one)
	e := in(two).open()
	if !quarantined(t, e) {
		t.Fatal("the copy is not quarantined")
	}
	out, err := e.Adopt(t.Context(), true)
	if err != nil || *out.Adopted != "copy" || out.Epoch == 0 || e.Quarantined() {
		t.Errorf("adopted: %+v, %v", out, err)
	}
	if got, err := e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"}); err != nil || len(got) != 1 {
		t.Errorf("a claim: %v, %v", got, err)
	}
	u, _ := url.Parse(base)
	several := in(one)
	several.url = strings.Replace(several.url, u.Host, "127.0.0.1:1,"+u.Host, 1)
	in(one).use(func(e *engine.Engine) {
		if err := e.ExpectPlace(t.Context(), several.url); err != nil {
			t.Fatal(err)
		}
	})
	several.use(func(e *engine.Engine) {
		if quarantined(t, e) {
			t.Error("the expected place is quarantined")
		}
	})
	several.url = strings.Replace(several.url, "127.0.0.1:1,"+u.Host, u.Host+",127.0.0.1:1", 1)
	several.use(func(e *engine.Engine) {
		if quarantined(t, e) {
			t.Error("the hosts in another order are another place")
		}
	})
}

// acting says of every verb of the service whether it acts. A new verb gets a line.
var acting = map[string]bool{
	"Claim": true, "Heartbeat": true, "Release": true, "Suspend": true, "Complete": true, "Fail": true, "Submit": true, "SubmitParts": true,
	"Finalize": true, "Progress": true, "Checkpoint": true, "StartMessages": true, "OpenMessages": true, "Append": true, "StepMessages": true,
	"FinishMessages": true, "ReserveBudget": true, "SettleBudget": true, "OpenEffect": true, "EffectDone": true, "EffectFailed": true,
	"EffectUnknown": true, "KeepEffect": true,
	"EffectReceipt": false, "ApproveEffect": true, "Spawn": true, "SendSignals": true, "RunSchedule": true, "Sweep": true, "Tick": true,
	"RestoreArchive": false, "DeleteArchive": true, // the files of the original
	"Bulk": true, "BeginKeys": true, "RenewKeys": true, "CompleteKeys": true, "FailKeys": true,

	"CreateTasks": false, "AddItems": false, "CancelTasks": false, "UpdateTasks": false, "CloneTasks": false, "CheckpointTasks": false,
	"AppendCheckpoints": false, "PruneCheckpoints": false, "ForkTasks": false, "StopMessages": false,
	"ApproveTasks": false, // it refuses what is applied
	"RejectTasks":  false, "RejectEffect": false, "ResolveEffect": false, "RetryTasks": false, "BuryTasks": false, "DeleteTasks": false,
	"RevokeLeases": false, "PutBudget": false, "DeleteBudget": false, "SetQueue": false, "PauseQueue": false, "ResumeQueue": false,
	"PauseNamespace": false, "ResumeNamespace": false, "CreateSchedule": false, "PutSchedule": false, "PauseSchedule": false,
	"ResumeSchedule": false, "DeleteSchedule": false, "PutTypes": false, "RemoveTypes": false, "ResumeRelay": false, "ForgetRelay": false,
	"RegisterWorker": false, "PutBlob": false,

	"GetKeys": false, "CountBulk": false, "Resume": false, "ResumePage": false, "Prunable": false, "Doctor": false, "ListArchives": false,
	"ListRelays": false, "GetTask": false, "ListTasks": false, "TaskResult": false, "PartialResult": false,
	"GetType": false, "ListTypes": false,
	"GetQueue": false, "ListQueues": false, "GetBudget": false, "ListBudgets": false, "BudgetSpending": false,
	"GetEffect": false, "ListEffects": false, "GetSchedule": false, "ListSchedules": false, "ListFirings": false, "GetItem": false,
	"ListItems": false, "Why": false, "ListEvents": false, "FollowEvents": false, "ListCheckpoints": false, "ListParts": false,
	"ListProvenance": false, "CountCheckpoints": false, "ListWorkers": false, "ListKeys": false, "ListNamespaces": false,
	"ListSweeps": false, "Stats": false,
	"Series": false, "SuggestLeases": false, "ListFailures": false, "GetMessage": false, "ListMessages": false, "FollowMessage": false,
	"CheckToken": false, "LogCheckpoint": false, "ProveTask": false, "ProveLog": false, "OpenBlob": false,
}

func TestEveryVerbThatActsIsRefused(t *testing.T) {
	p := newPlace(t, pawltest.SQLite)
	p.use(func(*engine.Engine) {})
	e := p.copied().open()
	svc := reflect.TypeFor[pawl.Service]()
	if svc.NumMethod() != len(acting) {
		t.Errorf("the service has %d verbs, and the table %d", svc.NumMethod(), len(acting))
	}
	for i := range svc.NumMethod() {
		name := svc.Method(i).Name
		acts, listed := acting[name]
		if !listed {
			t.Errorf("%s is not in the table", name)
			continue
		}
		if name == "FollowEvents" || name == "FollowMessage" { // they do not end
			continue
		}
		m := reflect.ValueOf(e).MethodByName(name)
		args := make([]reflect.Value, m.Type().NumIn())
		for k := range args {
			args[k] = reflect.Zero(m.Type().In(k))
		}
		args[0] = reflect.ValueOf(t.Context())
		if name == "PutBlob" {
			args[1] = reflect.ValueOf(pawl.BlobUpload{Content: strings.NewReader("x")})
		}
		if m.Type().IsVariadic() {
			args = args[:len(args)-1]
		}
		out := m.Call(args)
		err, _ := out[len(out)-1].Interface().(error)
		if got := errors.Is(err, pawl.ErrQuarantined); got != acts {
			t.Errorf("%s: refused %v, acts %v: %v", name, got, acts, err)
		}
	}
	if err := e.RunBulks(t.Context()); !errors.Is(err, pawl.ErrQuarantined) {
		t.Errorf("RunBulks: %v", err)
	}
}
