package hot

import (
	"cmp"
	"context"
	_ "embed"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

//go:embed claim.sql
var claimSQL string

// claimBounded is the statement of a Bounded claim. It costs more and ends with the row
// that reaches the limit of bytes.
var claimBounded = strings.ReplaceAll(claimSQL, "--bytes ", "")

// Claim implements store.Hot. A pick is handled as a queue of one item.
func (Verbs) Claim(ctx context.Context, tx store.Tx, c store.Claim) ([]store.Claimed, error) {
	type group struct {
		store.Queue
		tail string
	}
	groups := make([]group, 0, len(c.Queues)+len(c.Picks))
	var ranks []int
	for _, p := range c.Picks {
		groups = append(groups, group{store.Queue{Type: p.Type, Rank: p.Rank, Head: p.ItemID}, p.ItemID})
		ranks = append(ranks, p.Rank)
	}
	slices.Sort(ranks)
	if len(c.Picks) == 0 {
		for _, g := range c.Queues {
			groups = append(groups, group{g, store.LastItem})
			if !slices.Contains(ranks, g.Rank) {
				ranks = append(ranks, g.Rank)
			}
		}
	}
	starts, limit := startsOf(c.Claimants), c.Limit()
	query, most := claimSQL, c.Share()
	if c.Bounded {
		query, most = claimBounded, pawl.MaxClaimBytes
	}
	args := []any{c.Namespace, limit, slices.Compact(ranks),
		column(groups, func(g *group) string { return g.Type }),
		column(groups, func(g *group) int { return g.Rank }),
		column(groups, func(g *group) store.ItemID { return store.FromItem(g.Head) }),
		column(groups, func(g *group) store.ItemID { return store.ItemID(g.tail) }),
		starts,
		column(c.Claimants, func(w *store.Claimant) string { return w.WorkerID }),
		column(c.Claimants, func(w *store.Claimant) int { return w.LeaseSeconds }),
		column(c.Claimants, func(w *store.Claimant) int { return bit(w.Prefetch) }),
		column(c.Claimants, func(w *store.Claimant) string { return actor(w.Actor, w.WorkerID).Type }),
		column(c.Claimants, func(w *store.Claimant) string { return actor(w.Actor, w.WorkerID).ID }),
		column(c.Claimants, func(w *store.Claimant) string { return string(w.Key) }), most, c.Admitted,
		column(groups, func(g *group) int { return c.Leases[g.Type] })}
	if err := store.EnsureActors(ctx, tx, actorsOf(c.Claimants)...); err != nil {
		return nil, err
	}
	var out, d = []store.Claimed(nil), store.Claimed{}
	var item, task, large = store.RawID{}, store.RawID{}, (*int)(nil) // a row that is too large fails while large is computed
	targets := []any{&d.Claimant, &d.LeaseSeconds, &item, &task, (*store.Text)(&d.Type), &d.Key, &d.Rank,
		&d.Priority, &d.Attempt, &d.Failures, &d.MaxAttempts, &d.Input, &d.AcquiredAt, &d.LeaseExpiresAt, &d.Said,
		&d.Error, &d.Reasons, &d.Rework, &d.Trace, &d.Forked, &large}
	rows, err := tx.Query(ctx, query, args...)
	err = read(rows, err, func(r store.Rows) error {
		err := r.Scan(targets...)
		d.Claimant--
		d.ItemID, d.TaskID = store.ItemAndTask(item, task)
		out = append(out, d)
		return err
	})
	sortClaimed(out)
	return out, err
}

// startsOf returns the place of the first row of each claimant.
func startsOf(claimants []store.Claimant) []int {
	starts, next := make([]int, len(claimants)), 1
	for i := range claimants {
		starts[i] = next
		next += claimants[i].Limit
	}
	return starts
}

// sortClaimed puts rows in claim order. This is cheaper than a sort of the rows with their
// inputs in the server.
func sortClaimed(out []store.Claimed) {
	order := func(a, b store.Claimed) int {
		return cmp.Or(cmp.Compare(a.Rank, b.Rank), cmp.Compare(a.ItemID, b.ItemID))
	}
	if !slices.IsSortedFunc(out, order) {
		slices.SortFunc(out, order)
	}
}

// actorsOf returns the claimants' workers and the actors of their events.
func actorsOf(claimants []store.Claimant) []store.ActorName {
	names := make([]store.ActorName, 0, 2*len(claimants))
	for i := range claimants {
		w := &claimants[i]
		names = append(names, store.Worker(w.WorkerID), actor(w.Actor, w.WorkerID).Named())
	}
	return names
}

//go:embed heads.sql
var headsSQL string

// headsLook is headsSQL without locks.
var headsLook = strings.ReplaceAll(headsSQL, "FOR UPDATE SKIP LOCKED", "")

// Heads implements store.Hot.
func (Verbs) Heads(ctx context.Context, tx store.Tx, queue int64, gates []store.GateWish) (map[int64][]store.Pick, error) {
	oldest, query := len(gates) > 0 && gates[0].Oldest, headsSQL
	if len(gates) > 0 && gates[0].Look {
		query = headsLook
	}
	rows, err := tx.Query(ctx, query, queue, column(gates, func(g *store.GateWish) int64 { return g.Gate }),
		column(gates, func(g *store.GateWish) int { return g.Most }), oldest)
	out := map[int64][]store.Pick{}
	return out, read(rows, err, func(r store.Rows) error {
		var gate int64
		var p store.Pick
		err := r.Scan(&gate, &p.Rank, (*store.ItemID)(&p.ItemID))
		out[gate] = append(out[gate], p)
		return err
	})
}
