// Package measure takes the measurements that `pawl bench` prints: how many items a second a
// service creates, claims and completes, in batches and by concurrent single calls, and how
// soon a waiting claim gets new work. It measures any pawl.Service. docs/performance.md
// explains the numbers.
package measure

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/clock"
)

// Service is the part of pawl.Service that is measured.
type Service interface {
	pawl.TaskMaker
	pawl.Leaser
	pawl.Finisher
}

// Options set the size of a measurement. Zero fields take the defaults.
type Options struct {
	Budget  time.Duration // how long each row creates; 0 = 1 s
	Batches []int         // nil = 1, 10, 100, 1000
	Callers []int         // nil = 1, 16, 64, 256
	Rate    int           // tasks a second for the pickup latency; 0 = 50
	Pickups int           // how many pickups; 0 = 200
}

// Row is one line of the report: items a second for each verb and for whole lives.
type Row struct {
	Batch    int     `json:"batch"`
	Callers  int     `json:"callers"`
	Items    int     `json:"items"`
	Create   float64 `json:"create_per_second"`
	Claim    float64 `json:"claim_per_second"`
	Complete float64 `json:"complete_per_second"`
	Life     float64 `json:"life_per_second"`
}

// Report holds the measurements of one database.
type Report struct {
	DB         string  `json:"db"`
	Rows       []Row   `json:"rows"`
	PickupRate int     `json:"pickup_rate"`   // tasks a second while the next two were measured
	PickupP50  float64 `json:"pickup_p50_ms"` // from the call that creates to the claim that gets the task
	PickupP99  float64 `json:"pickup_p99_ms"`
}

// payload has 200 bytes, as in the measurements of other engines.
var payload = json.RawMessage(`{"to":"` + strings.Repeat("x", 191) + `"}`)

// Take measures a service and reports its progress. Each row uses a type of its own,
// which no other worker claims, and leaves no items to claim.
func Take(ctx context.Context, s Service, db string, o Options, progress func(string)) (Report, error) {
	if o.Budget == 0 {
		o.Budget = time.Second
	}
	if o.Batches == nil {
		o.Batches = []int{1, 10, 100, 1000}
	}
	if o.Callers == nil {
		o.Callers = []int{1, 16, 64, 256}
	}
	if o.Rate == 0 {
		o.Rate = 50
	}
	if o.Pickups == 0 {
		o.Pickups = 200
	}
	r := Report{DB: db, PickupRate: o.Rate}
	mark := "bench." + strings.ToLower(rand.Text()[:8])
	for _, b := range o.Batches {
		progress(fmt.Sprintf("%s: batches of %d", db, b))
		row, err := life(ctx, s, fmt.Sprintf("%s.b%d", mark, b), b, 1, o.Budget)
		if err != nil {
			return r, err
		}
		r.Rows = append(r.Rows, row)
	}
	for _, c := range o.Callers {
		progress(fmt.Sprintf("%s: %d callers", db, c))
		row, err := life(ctx, s, fmt.Sprintf("%s.c%d", mark, c), 1, c, o.Budget)
		if err != nil {
			return r, err
		}
		r.Rows = append(r.Rows, row)
	}
	progress(db + ": pickup latency")
	var err error
	r.PickupP50, r.PickupP99, err = pickup(ctx, s, mark+".pickup", o.Rate, o.Pickups)
	return r, err
}

// life creates tasks of one item until the budget is used up, then claims and completes them
// all. It uses callers goroutines, which make calls of batch items each.
func life(ctx context.Context, s Service, typ string, batch, callers int, budget time.Duration) (Row, error) {
	row := Row{Batch: batch, Callers: callers}
	var created, claimed atomic.Int64
	tasks := make([]pawl.NewTask, batch)
	for i := range tasks {
		tasks[i] = pawl.NewTask{Type: typ, Payload: payload}
	}
	start := clock.Now()
	took, err := many(callers, func(int) error {
		for clock.Now().Sub(start) < budget {
			rs, err := s.CreateTasks(ctx, tasks)
			if err := first(rs, err); err != nil {
				return err
			}
			created.Add(int64(batch))
		}
		return nil
	})
	if err != nil {
		return row, err
	}
	row.Items = int(created.Load())
	row.Create = float64(row.Items) / took.Seconds()
	leases := make([][][]pawl.Lease, callers)
	claiming, err := many(callers, func(n int) error {
		for claimed.Load() < created.Load() {
			got, err := s.Claim(ctx, pawl.ClaimRequest{WorkerID: fmt.Sprintf("bench-%d", n), Types: []string{typ}, Limit: batch})
			if err != nil {
				return err
			}
			if len(got) > 0 {
				claimed.Add(int64(len(got)))
				leases[n] = append(leases[n], got)
			}
		}
		return nil
	})
	if err != nil {
		return row, err
	}
	row.Claim = float64(row.Items) / claiming.Seconds()
	completing, err := many(callers, func(n int) error {
		for _, got := range leases[n] {
			if err := done(ctx, s, got); err != nil {
				return err
			}
		}
		return nil
	})
	row.Complete = float64(row.Items) / completing.Seconds()
	row.Life = float64(row.Items) / (took + claiming + completing).Seconds()
	return row, err
}

// many runs fn in n goroutines and returns how long all of them took.
func many(n int, fn func(n int) error) (time.Duration, error) {
	start := clock.Now()
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = fn(i) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return 0, err
		}
	}
	return clock.Now().Sub(start), nil
}

// first returns the first error of a batch.
func first[T any](rs []pawl.Result[T], err error) error {
	if err != nil {
		return err
	}
	for _, r := range rs {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// pickup creates tasks at a rate while one claim waits. It returns the milliseconds from the
// call that creates a task to the claim that gets it.
func pickup(ctx context.Context, s Service, typ string, rate, n int) (p50, p99 float64, err error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	arrived := map[string]time.Time{}
	var leases []pawl.Lease
	var claimErr error
	var claims sync.WaitGroup
	claims.Go(func() {
		for len(leases) < n && claimErr == nil {
			var got []pawl.Lease
			got, claimErr = s.Claim(ctx, pawl.ClaimRequest{WorkerID: "bench-pickup", Types: []string{typ}, WaitSeconds: 10})
			if claimErr == nil && len(got) == 0 {
				claimErr = fmt.Errorf("measure: %d of %d tasks were picked up", len(leases), n)
			}
			for _, l := range got {
				arrived[l.TaskID] = clock.Now()
				leases = append(leases, l)
			}
		}
	})
	sent := map[string]time.Time{}
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for range n {
		<-tick.C
		at := clock.Now()
		t, err := pawl.Create(ctx, s, pawl.NewTask{Type: typ, Payload: payload})
		if err != nil {
			stop()
			claims.Wait()
			return 0, 0, err
		}
		sent[t.ID] = at
	}
	claims.Wait()
	if claimErr != nil {
		return 0, 0, claimErr
	}
	took := make([]float64, 0, n)
	for id, when := range arrived {
		took = append(took, float64(when.Sub(sent[id]).Microseconds())/1000)
	}
	slices.Sort(took)
	return took[n/2], took[n*99/100], done(ctx, s, leases)
}

// done completes the claimed items.
func done(ctx context.Context, s Service, leases []pawl.Lease) error {
	calls := make([]pawl.CompleteCall, len(leases))
	for i, l := range leases {
		calls[i] = pawl.CompleteCall{Fence: l.Fence(), Result: json.RawMessage(`{"ok":true}`)}
	}
	rs, err := s.Complete(ctx, calls)
	return first(rs, err)
}
