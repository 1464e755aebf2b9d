package engine_test

import (
	"net/url"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/testserver"
)

// What PostgreSQL's own programs copy keeps still until it is adopted. Then it goes on with what the original had at that
// time: a dump, a base backup, and a restore to a point in time.
func TestCopiesOfPostgresKeepStill(t *testing.T) {
	t.Parallel()
	bin, err := testserver.Find()
	if err != nil {
		t.Skip(err.Error())
	}
	primary := need[*testserver.Server](t)(testserver.Start(t.Context(), testserver.Options{Replicated: true}))
	t.Cleanup(func() { _ = primary.Stop() })
	copyUntil := func(target string) string {
		s := need[*testserver.Server](t)(primary.Standby(t.Context(), target, "recovery_target_action=promote"))
		t.Cleanup(func() { _ = s.Stop() })
		return s.URL
	}
	sql := func(url, text string) (recovers bool) {
		conn := need[*pgx.Conn](t)(pgx.Connect(t.Context(), url))
		defer conn.Close(t.Context())
		if text != "" {
			_, err := conn.Exec(t.Context(), text)
			ok(t, err)
		}
		ok(t, conn.QueryRow(t.Context(), "SELECT pg_is_in_recovery()").Scan(&recovers))
		return recovers
	}
	run := func(program string, args ...string) {
		if out, err := exec.CommandContext(t.Context(), filepath.Join(bin, program), args...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", program, err, out)
		}
	}

	copies := map[string]string{"a point in time": copyUntil("recovery_target_name=early")}
	original := place{t, primary.URL, "pawl"}
	var held pawl.Lease
	original.use(func(e *engine.Engine) {
		makeTask(t, e, "a")
		held = leases(t, e, pawl.ClaimRequest{WorkerID: "w", LeaseSeconds: 3600}, 1)[0]
	})
	sql(primary.URL, "SELECT pg_create_restore_point('early')")
	original.use(func(e *engine.Engine) { makeTask(t, e, "a") })
	copies["a base backup"] = copyUntil("recovery_target=immediate")
	sql(primary.URL, "CREATE DATABASE restored")
	u := need[*url.URL](t)(url.Parse(primary.URL))
	u.Path = "restored"
	dump := filepath.Join(t.TempDir(), "dump")
	run("pg_dump", "--format=custom", "--file="+dump, primary.URL)
	run("pg_restore", "--exit-on-error", "--dbname="+u.String(), dump)
	copies["dump and restore"] = u.String()

	for name, tasks := range map[string]int{"a point in time": 1, "a base backup": 2, "dump and restore": 2} {
		t.Run(name, func(t *testing.T) {
			until(t, "the copy comes to its target", func() bool { return !sql(copies[name], "") })
			place{t, copies[name], "pawl"}.use(func(e *engine.Engine) {
				if _, err := e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"}); pawl.CodeOf(err) != pawl.CodeQuarantined || !quarantined(t, e) {
					t.Fatalf("a claim of the copy: %v", err)
				}
				if out := need[engine.Adoption](t)(e.Adopt(t.Context(), false)); out.LeasesEnded != 1 {
					t.Errorf("adopted: %+v", out)
				}
				if _, err := e.CheckToken(t.Context(), held.Token); err == nil {
					t.Error("a token of the original is valid in the copy")
				}
				leases(t, e, pawl.ClaimRequest{WorkerID: "w", Limit: 9}, tasks)
				if breaches := need[[]engine.Breach](t)(e.Check(t.Context())); len(breaches) > 0 {
					t.Error(breaches)
				}
			})
		})
	}
	original.use(func(e *engine.Engine) {
		if _, err := e.CheckToken(t.Context(), held.Token); err != nil || quarantined(t, e) {
			t.Errorf("the original: %v", err)
		}
	})
}
