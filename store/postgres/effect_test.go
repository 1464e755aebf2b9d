package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Calls of one statement are each carried out or refused alone. A key that two of them name is opened once.
func TestEffectsOfOneStatement(t *testing.T) {
	h := newDatabase(t)
	for n := range 5 {
		h.solo(n, nil)
	}
	keys := []string{"a", "b", "c", "d", "b"}
	var calls []store.OpenEffect
	for i, l := range h.claim("w", 5, nil) {
		calls = append(calls, store.OpenEffect{Ord: i, Fence: fence(l.ItemID, "w", 1), GateSeconds: 15 * (i % 2), Data: store.Text(fmt.Sprint(i)),
			Effect: store.EffectRow{ID: fmt.Sprint("eff_", i), Key: keys[i], Name: "n", RequestHash: "h", Senders: "[]"}})
	}
	calls[2].Attempt = 2
	h.exec("UPDATE leases SET lease_expires_at = 1 WHERE item_id = (SELECT item_id FROM leases ORDER BY item_id OFFSET 3 LIMIT 1)")
	var opened []int
	h.auto(func(ctx context.Context, tx store.Tx, hot store.Hot) (err error) {
		opened, err = hot.OpenEffect(ctx, tx, calls)
		return err
	})
	slices.Sort(opened)
	if len(opened) != 2 || opened[0] != 0 || opened[1] != 1 && opened[1] != 4 {
		t.Fatalf("opened are %v, want 0 and 1 or 4", opened)
	}
	other := opened[1]
	want := fmt.Sprintf("(eff_0,a,attempt,0,1,0) (eff_%d,b,%s,%d,%d,%d)", other, []string{"attempt", "gate"}[other%2], 15*(other%2)*1_000_000,
		1-other%2, other)
	rows := `SELECT f.id, f.key, f.sender, COALESCE(f.sent_until - f.opened_at, 0), l.effects, e.data
FROM effects f JOIN leases l ON l.item_id = f.item_id JOIN task_events e ON e.item_id = f.item_id AND e.data IS NOT NULL AND e.attempt = 1
ORDER BY f.key`
	if got := h.one(rows); got != want {
		t.Errorf("they are %s, want %s", got, want)
	}

	var reports, reported []store.ReportEffect
	for i, c := range calls {
		f := store.EffectRow{ID: c.Effect.ID, State: pawl.EffectFailed, Error: store.Text(fmt.Sprint(`"`, i, `"`))}
		if i == 0 {
			f.State, f.Answer, f.AnswerHash, f.Error = pawl.EffectDone, "1", "hash", ""
		}
		reports = append(reports, store.ReportEffect{Ord: i, Fence: c.Fence, Effect: f})
	}
	h.auto(func(ctx context.Context, tx store.Tx, hot store.Hot) (err error) {
		reported, err = hot.ReportEffect(ctx, tx, reports)
		return err
	})
	said := ""
	for _, r := range reported {
		said += fmt.Sprintln(r.Ord, r.Effect.ID, r.Effect.Key, r.Effect.State, r.Effect.Answer, r.Effect.Error, r.Effect.EndedAt != nil)
	}
	if want := fmt.Sprintf("0 eff_0 a done 1  true\n%d eff_%d b failed  \"%d\" true\n", other, other, other); said != want {
		t.Errorf("reported are\n%swant\n%s", said, want)
	}
	want = fmt.Sprintf(`(eff_0,done,1,,0) (eff_%d,failed,,"""%d""",0)`, other, other)
	rows = "SELECT f.id, f.state, f.answer, f.error, l.effects FROM effects f JOIN leases l ON l.item_id = f.item_id ORDER BY f.key"
	if got := h.one(rows); got != want {
		t.Errorf("they are %s, want %s", got, want)
	}
}
