package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// doctor warns about settings that put a promise at risk, and still exits with 0.
func TestDoctorWarns(t *testing.T) {
	p := pawltest.OpenReal(t, pawltest.Postgres)
	if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "t"}); err != nil {
		t.Fatal(err)
	}
	if err := p.Service.RegisterWorker(t.Context(), pawl.WorkerInfo{WorkerID: "w"}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Engine.Feed().Head(t.Context()); err != nil {
		t.Fatal(err)
	}
	warned := func(url string) (names []string) {
		var found struct {
			Clean    *bool
			Breaches []engine.Breach
			Warnings []engine.Warning
		}
		if err := json.Unmarshal(runPawl(t, "doctor", "--json", "--db", url, "--schema", p.Schema), &found); err != nil {
			t.Fatal(err)
		}
		if found.Clean == nil || !*found.Clean || found.Breaches == nil || found.Warnings == nil {
			t.Errorf("%+v", found)
		}
		for _, w := range found.Warnings {
			if w.Detail == "" || w.Command == "" {
				t.Errorf("%+v", w)
			}
			names = append(names, w.Code)
		}
		return names
	}
	if got := warned(p.URL); len(got) != 0 {
		t.Errorf("of a healthy database: %v", got)
	}
	conn, err := pgx.Connect(t.Context(), p.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), `UPDATE `+p.Schema+`.relay_cursors
		SET detail = (detail::jsonb || '{"epoch":1,"epochs":[{"epoch":1,"position":1}]}')::text WHERE sink = 'feed'`); err != nil {
		t.Fatal(err)
	}
	risky := p.URL + "&synchronous_commit=off"
	if got := warned(risky); !slices.Equal(got, []string{"epoch", "synchronous_commit"}) {
		t.Errorf("warnings: %v", got)
	}
	if out := string(runPawl(t, "doctor", "--db", risky, "--schema", p.Schema)); !strings.Contains(
		out,
		"warning: epoch: epoch 1 of the feed began after position 1, at a failover or restore (docs/events.md): "+
			"whether events are lost cannot be told here",
	) ||
		!strings.HasSuffix(out, "clean\n") {
		t.Errorf("as text:\n%s", out)
	}
}
