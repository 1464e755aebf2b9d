package logs_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) { pawltest.Main(m) }

func first[T any](rs []pawl.Result[T], err error) (T, error) { return pawltest.First(rs, err) }

func need[T any](t testing.TB) func(v T, err error) T { return pawltest.Must[T](t) }

// times returns how often something is done: in tests, and in a long run of them.
func times(short, long int) int {
	if os.Getenv("PAWL_TORTURE") == "1" {
		return long
	}
	return short
}

// scene is a database of a test.
type scene struct {
	*testing.T
	*pawltest.Pawl
}

func (s *scene) ok(_ any, err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// logged is a task of some events, logged and signed in two passes. A test can change its
// events without Pawl.
type logged struct {
	*scene
	task   pawl.Task
	events []pawl.Event
	key    string // the signing key's file
}

// withKey are the options of an engine that signs with a key of the test's.
func withKey(t *testing.T) engine.Options {
	return engine.Options{TransparencyLog: engine.LogOptions{Key: filepath.Join(t.TempDir(), "key")}}
}

// eachSigned runs a test on every database, with a key.
func eachSigned(t *testing.T, fn func(t *testing.T, c *logged)) {
	t.Helper()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			o := withKey(t)
			fn(t, &logged{scene: &scene{T: t, Pawl: pawltest.OpenWith(t, which, o)}, key: o.TransparencyLog.Key})
		})
	}
}

// sign logs and signs what is committed.
func (c *logged) sign() (note string) {
	c.Helper()
	c.ok(nil, c.Engine.Log(c.Context()))
	note, err := c.Engine.SignLog(c.Context())
	c.ok(nil, err)
	return note
}

// someEvents makes the task with its events.
func (c *logged) someEvents() {
	c.Helper()
	c.Cleanup(func() { c.ok(nil, forgetAll(c.Pawl)) })
	ctx := pawl.WithProvenance(c.Context(), pawl.Provenance{AgentName: "research-bot", Model: "m-1"})
	task, err := pawl.Create(ctx, c.Service, pawl.NewTask{Type: "a", Payload: []byte(`1`)})
	c.ok(task, err)
	c.task = task
	c.sign()
	c.ok(pawl.Create(ctx, c.Service, pawl.NewTask{Type: "b"})) // events of other tasks lie between
	c.sign()
	for range 2 {
		l := c.Claim("a")
		c.ok(pawl.Fail(c.Context(), c.Service, l.Fence(), pawl.RetryAfter(0, fmt.Errorf("no"))))
		c.ok(pawl.Create(c.Context(), c.Service, pawl.NewTask{Type: "b"}))
	}
	c.sign()
	list, err := c.Service.ListEvents(c.Context(), pawl.EventFilter{TaskID: c.task.ID, Asc: true})
	c.ok(nil, err)
	c.events = list.Items
	if got := c.verify(); !got.Intact || got.Signed != 5 || got.Events != 5 || got.Checkpoint == nil || got.Checkpoint.Size != 8 {
		c.Fatalf("before anybody wrote around it: %+v", got)
	}
	if got := c.verifyAll(); !got.Intact || got.Events != 8 {
		c.Fatalf("before anybody wrote around it: %+v", got)
	}
}

// forgetAll removes what a test has broken, before the rules are checked.
func forgetAll(p *pawltest.Pawl) error {
	ctx := context.Background()
	list, err := p.Service.ListTasks(ctx, pawl.TaskFilter{})
	if err != nil {
		return err
	}
	var calls []pawl.TaskCall
	for _, t := range list.Items {
		calls = append(calls, pawl.TaskCall{TaskID: t.ID, Force: true})
	}
	_, err = p.Service.DeleteTasks(ctx, calls)
	return err
}

func (c *logged) verify() engine.TaskVerification {
	c.Helper()
	got, err := c.Engine.VerifyTask(c.Context(), c.task.ID, nil)
	c.ok(nil, err)
	return got
}

func (c *logged) verifyAll() engine.LogVerification {
	c.Helper()
	got, err := c.Engine.VerifyLog(c.Context(), -1, nil)
	c.ok(nil, err)
	return got
}

// around changes a table that refuses changes, as an owner of the database can. It removes
// the trigger that refuses them and then restores it.
func (c *logged) around(table string, queries ...string) {
	c.Helper()
	c.Tampered()
	off, on := "ALTER TABLE pawl."+table+" DISABLE TRIGGER USER", "ALTER TABLE pawl."+table+" ENABLE TRIGGER USER"
	if c.Database == pawltest.SQLite {
		off = "DROP TRIGGER IF EXISTS " + table + "_no_update"
		on = "CREATE TRIGGER " + table + "_no_update BEFORE UPDATE ON " + table +
			" BEGIN SELECT RAISE(ABORT, 'pawl: " + table + " is append-only'); END"
	}
	all := append([]string{off, "INSERT INTO pawl.retention_gate (reason) VALUES ('test')"}, queries...)
	for _, q := range append(all, "DELETE FROM pawl.retention_gate", on) {
		if err := c.Exec(q); err != nil {
			c.Fatalf("%s: %v", q, err)
		}
	}
}

func number(e pawl.Event) string { return strings.TrimPrefix(e.ID, "evt_") }
