//go:build unix

package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// moveUntilKilled moves what the environment says, and kills itself at the first step that it does not name.
func moveUntilKilled(e *engine.Engine) error {
	o, err := uploadOptions()
	if err != nil {
		return err
	}
	o.Schema = os.Getenv("PAWL_TEST_TARGET_SCHEMA")
	to, err := engine.OpenWith(context.Background(), os.Getenv("PAWL_TEST_TARGET"), o)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }()
	passed := strings.Split(os.Getenv("PAWL_TEST_PASSED"), ",")
	_, err = e.Relocate(context.Background(), to, engine.Move{Namespace: os.Getenv("PAWL_TEST_NAMESPACE"), Step: func(name string) {
		one, table, _ := strings.Cut(name, " ")
		tables := (one == "copied" || one == "cleared") && table != ""
		if some := times(1, 0) == 1; some && tables && table != "leases" && table != "task_events" {
			return
		}
		if !slices.Contains(passed, name) {
			write(entry{Verb: name})
			kill()
		}
	}})
	if err == nil {
		write(entry{Verb: "over"})
	}
	return err
}

// A mover that is killed with SIGKILL at each of its steps loses nothing, and nothing is there twice. Both
// databases never act at the same time. The short form has one way for each scope,
// and leaves out the steps of most tables.
func TestKilledMoversLoseNothing(t *testing.T) {
	t.Parallel()
	ways := [][2]pawltest.Database{{pawltest.SQLite, pawltest.Postgres}, {pawltest.Postgres, pawltest.SQLite}}
	for i, way := range ways {
		for j, namespace := range []string{"", pawl.DefaultNamespace} {
			if i != j && times(1, 20) == 1 {
				continue
			}
			t.Run(fmt.Sprintf("%s to %s, namespace %s", way[0], way[1], namespace), func(t *testing.T) {
				t.Parallel()
				for range moverRuns(t) {
					killMovers(t, pawltest.OpenReal(t, way[0]), pawltest.OpenReal(t, way[1]), namespace)
				}
			})
		}
	}
}

// moverRuns is how often movers are killed at each step: once, 20 times with PAWL_TORTURE=1, or as often as PAWL_MOVERS says.
func moverRuns(t *testing.T) int {
	t.Helper()
	n := times(1, 20)
	if text := os.Getenv("PAWL_MOVERS"); text != "" {
		n = need[int](t)(strconv.Atoi(text))
	}
	return n
}

func killMovers(t *testing.T, from, to *pawltest.Pawl, namespace string) {
	t.Helper()
	var made []string
	for i := range 10 {
		task := need[pawl.Task](t)(pawl.Create(t.Context(), from.Service, pawl.NewTask{Type: "work", Payload: json.RawMessage(fmt.Sprint(i))}))
		made = append(made, task.ID)
	}
	l := leases(t, from.Engine, pawl.ClaimRequest{WorkerID: "w", Types: []string{"work"}, LeaseSeconds: 3600}, 1)[0]
	passed := []string{}
	for !slices.Contains(passed, "over") { // each mover passes one step more
		mover := start(t, from, "mover", "PAWL_TEST_TARGET="+to.URL, "PAWL_TEST_TARGET_SCHEMA="+to.Schema,
			"PAWL_TEST_NAMESPACE="+namespace, "PAWL_TEST_PASSED="+strings.Join(passed, ","))
		e, found := mover.read(t)
		_ = mover.Wait()
		if !found || e.Err != "" {
			t.Fatalf("the mover has ended without a step after %v: %s", passed, e.Err)
		}
		passed = append(passed, e.Verb)
		if at, there := acts(t, from), acts(t, to); at && there {
			t.Fatalf("both databases act after %v", passed)
		}
	}
	for _, id := range made {
		if _, err := to.Service.GetTask(t.Context(), id); err != nil {
			t.Errorf("the task %s: %v", id, err)
		}
	}
	if _, err := first(to.Service.Complete(t.Context(), []pawl.CompleteCall{{Fence: l.Fence()}})); err != nil {
		t.Errorf("complete under the lease of the source: %v", err)
	}
	if breaches, err := to.Engine.Check(t.Context()); err != nil || len(breaches) > 0 {
		t.Errorf("the target: %v %v", breaches, err)
	}
	if err := from.Engine.ForgetMoves(t.Context()); err != nil {
		t.Error(err)
	}
}
