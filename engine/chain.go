package engine

import (
	"cmp"
	"context"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

// Chain is the result of verifying a task's hash chain.
type Chain = store.Chain

// VerifyTask compares a task's events with their hash chain. head is a hash that was
// stored elsewhere and must be in the chain; "" = none. VerifyTask changes nothing.
func (e *Engine) VerifyTask(ctx context.Context, taskID, head string) (Chain, error) {
	return view(ctx, e, func(ctx context.Context, tx store.Tx, ns string) (Chain, error) {
		if _, err := store.TaskState(ctx, tx, ns, taskID); err != nil {
			if deleted, failed := store.WasDeleted(ctx, tx, ns, taskID); failed != nil || !deleted {
				return Chain{}, cmp.Or(failed, err)
			}
			c, found, failed := store.VerifyTombstone(ctx, tx, taskID, head)
			if failed != nil || !found {
				return Chain{}, cmp.Or(failed, err)
			}
			return c, nil
		}
		return store.VerifyChain(ctx, tx, e.db.Dialect().Commits, taskID, head)
	})
}

// Seal seals the events that are committed now; Run seals later ones.
func (e *Engine) Seal(ctx context.Context) error { return e.feed.Seal(ctx) }

// chainRule is the rule of store.Rules that CheckChains checks.
const chainRule = "chain"

// CheckChains verifies the hash chains of the newest tasks of all namespaces, at most
// limit, and the tombstones of at most limit deleted tasks. A limit below 0 means all. It
// returns how many tasks it checked.
func (e *Engine) CheckChains(ctx context.Context, limit int) (out []Breach, looked int, err error) {
	out, looked, err = e.eachChain(ctx, limit, store.TasksBefore)
	if err != nil {
		return out, looked, err
	}
	deleted, more, err := e.eachChain(ctx, limit, store.TombstonesBefore)
	return append(out, deleted...), looked + more, err
}

func (e *Engine) eachChain(
	ctx context.Context,
	limit int,
	list func(ctx context.Context, tx store.Tx, before string, limit int) ([]string, error),
) (out []Breach, looked int, err error) {
	for before := store.EndOfTime; limit < 0 || looked < limit; {
		size := pawl.MaxPage
		if limit >= 0 {
			size = min(size, limit-looked)
		}
		var tasks []string
		err := e.db.View(ctx, func(ctx context.Context, tx store.Tx) (err error) {
			tasks, err = list(ctx, tx, before, size)
			return err
		})
		if err != nil || len(tasks) == 0 {
			return out, looked, err
		}
		for _, id := range tasks {
			b, err := e.checkChain(ctx, id)
			if err != nil {
				return out, looked, err
			}
			out = append(out, b...)
		}
		looked, before = looked+len(tasks), tasks[len(tasks)-1]
	}
	return out, looked, nil
}

func (e *Engine) checkChain(ctx context.Context, taskID string) (out []Breach, err error) {
	err = e.db.View(store.WithLimit(ctx, checkLimit), func(ctx context.Context, tx store.Tx) error {
		ns, err := store.NamespaceOfTask(ctx, tx, taskID)
		if err != nil {
			return err
		}
		var c Chain
		if ns == "" {
			var found bool
			if c, found, err = store.VerifyTombstone(ctx, tx, taskID, ""); !found {
				return err // it was removed meanwhile
			}
		} else {
			if leaving, err := store.BeingDeleted(ctx, tx, taskID); err != nil || leaving {
				return err
			}
			c, err = store.VerifyChain(ctx, tx, e.db.Dialect().Commits, taskID, "")
		}
		if err != nil || c.Intact {
			return err
		}
		out = []Breach{{Rule: chainRule, Subject: strings.TrimSpace(taskID + " " + c.Break.EventID), Found: c.Break.Kind + ": " + c.Break.Found,
			Repair: "events cannot be changed: find out which program changed the table directly, and restore a backup"}}
		return nil
	})
	return out, err
}
