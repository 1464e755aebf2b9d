package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/riverqueue/river"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/postgres"
)

const crowd = 64 // number of callers that make single calls

// single measures what group commit is for: 64 callers with one item per call. "Without" is
// the same statement for each call, on a connection for each caller.
func (b *bench) single(ctx context.Context) error {
	n, slow := b.sized(60_000, 20_000), b.sized(20_000, 6_000)
	var with, without lives
	var river series
	err := b.alternate(func() error {
		for _, run := range []func() error{
			func() error {
				return b.fresh(ctx, forPawl, func(url string) error { return grouped(ctx, url, n, &with) })
			},
			func() error {
				return b.fresh(ctx, forPawl, func(url string) error { return ungrouped(ctx, url, slow, &without) })
			},
			func() error {
				return b.fresh(ctx, forRiver, func(url string) error { return riverSingles(ctx, url, slow, &river) })
			},
		} {
			if err := run(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	b.say("64 callers: create %s/s, complete %s/s; without group commit %s/s, %s/s; River %s/s", with.create, with.drain, without.create,
		without.drain, river)
	rate := func(s series) string { return figure(s.median()) + "/s" }
	b.add(line{name: "single create, 64 callers, group commit", got: with.create.over(without.create), unit: "×", atLeast: 2.5,
		absolute: rate(with.create), peer: "without: " + rate(without.create)})
	b.add(line{name: "single complete, 64 callers, group commit", got: with.drain.over(without.drain), unit: "×", atLeast: 6,
		absolute: rate(with.drain), peer: "without: " + rate(without.drain)})
	b.add(line{name: "single create, 64 callers, against River", got: with.create.over(river), unit: "×", atLeast: 3,
		absolute: rate(with.create), peer: "River Insert: " + rate(river)})
	return nil
}

// fresh runs fn on a fresh database.
func (b *bench) fresh(ctx context.Context, template string, fn func(url string) error) error {
	url, drop, err := b.admin.fresh(ctx, template)
	if err != nil {
		return err
	}
	defer drop()
	return fn(url)
}

// grouped creates and completes n tasks by single calls through the engine.
func grouped(ctx context.Context, url string, n int, into *lives) error {
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer h.stop()
	todo := inBatches(n, 1)
	took, err := many(crowd, func(int) error {
		for todo.next() > 0 {
			if _, err := pawl.Create(ctx, h, pawl.NewTask{Type: taskOf, Payload: payload}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	into.create = append(into.create, perSecond(n, took))
	leases, err := h.claimAll(ctx, n, 0)
	if err != nil {
		return err
	}
	took, err = many(crowd, func(who int) error {
		for i := who; i < n; i += crowd {
			if _, err := pawl.Complete(ctx, h, leases[i].Fence(), result); err != nil {
				return err
			}
		}
		return nil
	})
	into.drain = append(into.drain, perSecond(n, took))
	return err
}

// ungrouped does the same with the store's verbs, one call per statement.
func ungrouped(ctx context.Context, url string, n int, into *lives) error {
	db, err := postgres.Open(ctx, url, postgres.Options{MaxConns: crowd * 10 / 6})
	if err != nil {
		return err
	}
	defer db.Close()
	hot, todo := db.Dialect().Hot, inBatches(n, 1)
	took, err := many(crowd, func(int) error {
		for todo.next() > 0 {
			task, item := row()
			if err := db.Auto(ctx, func(ctx context.Context, tx store.Tx) error {
				_, err := hot.Create(ctx, tx, []store.NewTask{task}, []store.NewItem{item})
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	into.create = append(into.create, perSecond(n, took))
	h, err := openEngine(ctx, url)
	if err != nil {
		return err
	}
	defer h.stop()
	leases, err := h.claimAll(ctx, n, 0)
	if err != nil {
		return err
	}
	took, err = many(crowd, func(who int) error {
		for i := who; i < n; i += crowd {
			if err := db.Auto(ctx, func(ctx context.Context, tx store.Tx) error {
				l := leases[i]
				done, err := hot.Complete(ctx, tx, []store.Complete{{Fence: store.Fence{Namespace: pawl.DefaultNamespace, ItemID: l.ID,
					WorkerID: l.WorkerID, Attempt: l.Attempt}, Result: string(result)}})
				if err == nil && len(done) != 1 {
					err = fmt.Errorf("%s was not completed", l.ID)
				}
				return err
			}); err != nil {
				return err
			}
		}
		return nil
	})
	into.drain = append(into.drain, perSecond(n, took))
	return err
}

// row returns a task of one item as the engine would write it.
func row() (store.NewTask, store.NewItem) {
	id, actor := ulid.Make().String(), store.Actor{Type: pawl.ActorAPI}
	data, _ := json.Marshal(map[string]any{"type": taskOf, "items": 1}) // it always marshals
	task := store.NewTask{ID: "tsk_" + id, Namespace: pawl.DefaultNamespace, Type: taskOf, Solo: true, Metadata: "{}", Items: 1,
		Actor: actor, Data: string(data)}
	item := store.NewItem{ID: "itm_" + id, Namespace: task.Namespace, TaskID: task.ID, Type: taskOf, Kind: pawl.KindWork, Solo: true,
		MaxAttempts: pawl.DefaultMaxAttempts, Input: string(payload), Actor: actor, Data: store.Text(data)}
	return task, item
}

func riverSingles(ctx context.Context, url string, n int, into *series) error {
	r, err := openRiver(ctx, url, riverBest, nil)
	if err != nil {
		return err
	}
	defer r.pool.Close()
	todo := inBatches(n, 1)
	var took time.Duration
	took, err = many(crowd, func(int) error {
		for todo.next() > 0 {
			if _, err := r.Insert(ctx, riverJob, &river.InsertOpts{}); err != nil {
				return err
			}
		}
		return nil
	})
	*into = append(*into, perSecond(n, took))
	return err
}
