package hot

import (
	"cmp"
	"context"
	"slices"

	"github.com/pawl-work/pawl/store"
)

var (
	claim       = read("claim.sql")
	claimTake   = claim.get("Take")
	claimPick   = claim.get("Pick")
	claimPeek   = claim.get("Peek")
	claimLease  = claim.get("Lease")
	claimLeased = claim.get("Leased")
)

// claimed is a row of ready on its way to leases.
type claimed struct {
	kind, itemID, taskID                    string
	rank, attempt, failures, maxAttempts    int64
	solo, feeds, acceptance, rework, spared int64
	startedAt                               *int64
	err, key, reasons, said                 store.Text
	input                                   string
}

func (r *claimed) targets() []any {
	return []any{&r.kind, &r.rank, &r.itemID, &r.taskID, &r.attempt, &r.failures, &r.maxAttempts, &r.solo, &r.feeds, &r.acceptance, &r.rework, &r.spared,
		&r.startedAt, &r.err, &r.key, &r.input, &r.reasons, &r.said}
}

// Claim implements store.Hot. Nobody else writes meanwhile, so no row is locked.
func (Verbs) Claim(ctx context.Context, tx store.Tx, c store.Claim) ([]store.Claimed, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	var taken []claimed
	if len(c.Picks) > 0 {
		taken, err = pick(ctx, tx, c.Namespace, c.Picks, nil, c.Limit())
	} else {
		taken, err = walk(ctx, tx, &c)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(taken, func(a, b claimed) int {
		return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.itemID, b.itemID))
	})
	out := make([]store.Claimed, len(taken))
	who, dealt := 0, 0
	for i := range taken {
		for dealt == c.Claimants[who].Limit {
			who, dealt = who+1, 0
		}
		dealt++
		if out[i], err = hold(ctx, tx, c.Namespace, &c.Claimants[who], &taken[i], now); err != nil {
			return nil, err
		}
		out[i].Claimant = who
	}
	return out, nil
}

// walk takes from the groups in their order, those of one rank together.
func walk(ctx context.Context, tx store.Tx, c *store.Claim) ([]claimed, error) {
	var taken []claimed
	limit := c.Limit()
	for rest := c.Groups; len(rest) > 0 && len(taken) < limit; {
		n := 1
		for n < len(rest) && rest[n].Rank == rest[0].Rank {
			n++
		}
		wanted := limit - len(taken)
		var err error
		if n == 1 {
			taken, err = rowsOf(ctx, tx, taken, claimTake, c.Namespace, rest[0].Type, int64(rest[0].Rank), rest[0].Head, int64(wanted))
		} else {
			var picks []store.Pick
			if picks, err = merge(ctx, tx, c.Namespace, rest[:n], wanted); err == nil {
				taken, err = pick(ctx, tx, c.Namespace, picks, taken, limit)
			}
		}
		if err != nil {
			return nil, err
		}
		rest = rest[n:]
	}
	return taken, nil
}

// merge finds the first rows by item id over groups of one rank.
func merge(ctx context.Context, tx store.Tx, namespace string, groups []store.Group, wanted int) ([]store.Pick, error) {
	var picks []store.Pick
	for _, g := range groups {
		rows, err := tx.Query(ctx, claimPeek, namespace, g.Type, int64(g.Rank), g.Head, int64(wanted))
		if err != nil {
			return nil, err
		}
		for rows.Next() {
			p := store.Pick{Type: g.Type, Rank: g.Rank}
			if err := rows.Scan(&p.ItemID); err != nil {
				rows.Close()
				return nil, err
			}
			picks = append(picks, p)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(picks, func(a, b store.Pick) int { return cmp.Compare(a.ItemID, b.ItemID) })
	return picks[:min(wanted, len(picks))], nil
}

// pick takes named rows that are still there, until limit are taken.
func pick(ctx context.Context, tx store.Tx, namespace string, picks []store.Pick, taken []claimed, limit int) ([]claimed, error) {
	var err error
	for _, p := range picks {
		if len(taken) >= limit {
			break
		}
		if taken, err = rowsOf(ctx, tx, taken, claimPick, namespace, p.Type, int64(p.Rank), p.ItemID); err != nil {
			return nil, err
		}
	}
	return taken, nil
}

func rowsOf(ctx context.Context, tx store.Tx, taken []claimed, query string, args ...any) ([]claimed, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var r claimed
	targets := r.targets()
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return nil, err
		}
		taken = append(taken, r)
	}
	return taken, rows.Err()
}

// hold writes the lease and its event.
func hold(ctx context.Context, tx store.Tx, namespace string, c *store.Claimant, r *claimed, now int64) (store.Claimed, error) {
	who := c.Actor
	if who.Type == "" {
		who = worker(c.WorkerID, c.Key)
	}
	priority := (1 - r.rank) >> 1 // rank is -2*priority, or that + 1
	expires := now + int64(c.LeaseSeconds)*1_000_000
	started := now
	if r.startedAt != nil {
		started = *r.startedAt
	}
	r.attempt++
	_, err := tx.Exec(ctx, claimLease, r.itemID, namespace, r.taskID, r.kind, priority, r.attempt, r.failures, r.maxAttempts,
		r.solo, r.feeds, r.acceptance, r.rework, r.spared, flag(c.Prefetch), c.WorkerID, int64(c.LeaseSeconds), started, now, expires, r.err, c.Key, store.StoppedIn(r.said))
	if err == nil {
		_, err = tx.Exec(ctx, claimLeased, namespace, r.taskID, r.itemID, r.attempt, who.Type, store.Text(who.ID), c.Key, now)
	}
	return store.Claimed{
		ItemID: r.itemID, TaskID: r.taskID, Type: r.kind, Key: r.key, Rank: int(r.rank), Priority: int(priority),
		Attempt: int(r.attempt), Failures: int(r.failures), MaxAttempts: int(r.maxAttempts), LeaseSeconds: c.LeaseSeconds,
		Input: r.input, Said: r.said, Error: r.err, Reasons: r.reasons, AcquiredAt: now, LeaseExpiresAt: expires,
	}, err
}
