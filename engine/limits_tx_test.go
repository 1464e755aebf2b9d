package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// Claims from several queues with limits, each in one transaction, do not deadlock.
func TestClaimsFromSeveralLimitedQueuesDoNotDeadlock(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	var types []string
	var items []pawl.NewItem
	for i := range 4 {
		types = append(types, fmt.Sprint("q", i))
		items = append(items, pawl.NewItem{Type: types[i], Input: json.RawMessage(`1`)})
		need[pawl.Queue](t)(p.Engine.SetQueue(ctx, types[i], pawl.QueuePatch(`{"concurrency":1000}`)))
	}
	task := need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a", Items: items}))
	for range 3 {
		need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a", Items: items}))
	}
	pool := []pawl.ClaimRequest{{Types: types, Limit: 8}, {TaskID: task.ID, Limit: 4}}
	engines := []*engine.Engine{p.Engine, p.Another(engine.Options{})}
	var running sync.WaitGroup
	for n := range 4 {
		running.Go(func() {
			e, req := engines[n%2], pool[n/2]
			req.WorkerID = fmt.Sprint("w", n)
			conn := need[*pgx.Conn](t)(pgx.Connect(ctx, p.URL))
			defer conn.Close(context.WithoutCancel(ctx))
			for range times(30, 2000) {
				tx := need[pgx.Tx](t)(conn.Begin(ctx))
				_, err := e.In(tx).Claim(ctx, req)
				time.Sleep(time.Millisecond)
				if _ = tx.Rollback(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	running.Wait()
}

// A transaction that does not see the leases of others claims from no queue with limits.
func TestAClaimInASnapshotExceedsNoLimit(t *testing.T) {
	p := pawltest.Open(t, pawltest.Postgres)
	ctx := t.Context()
	need[pawl.Queue](t)(p.Engine.SetQueue(ctx, "limited", pawl.QueuePatch(`{"concurrency":1}`)))
	for range 2 {
		need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "limited"}))
		need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "free"}))
	}
	conn := need[*pgx.Conn](t)(pgx.Connect(ctx, p.URL))
	defer conn.Close(context.WithoutCancel(ctx))
	for _, level := range []pgx.TxIsoLevel{pgx.ReadCommitted, pgx.RepeatableRead, pgx.Serializable} {
		var code pawl.Code
		if level != pgx.ReadCommitted {
			code = pawl.CodeInvalid
		}
		tx := need[pgx.Tx](t)(conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: level}))
		for _, typ := range []string{"limited", "free"} {
			got, err := p.Engine.In(tx).Claim(ctx, pawl.ClaimRequest{WorkerID: "w", Types: []string{typ}, Limit: 2})
			if typ == "free" && (err != nil || len(got) != 2) || typ == "limited" && (pawl.CodeOf(err) != code || code == "" && len(got) != 1) {
				t.Errorf("%s, %s: %d leases, %v", level, typ, len(got), err)
			}
		}
		if err := tx.Rollback(ctx); err != nil {
			t.Fatal(err)
		}
	}
}
