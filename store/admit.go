package store

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/pawl-work/pawl"
)

// Admission asks which items of a queue with limits may be claimed now. The answer holds until
// the transaction ends: every claim that counts the same slots waits for it or takes others.
type Admission struct {
	Queue     int64
	Type      string
	Claimants []Claimant       // with what each may still take
	Turn      Turn             // of the keys
	Last      bool             // wait for a gate that other claims have, in place of Busy
	NoWait    bool             // wait for no row that another transaction locks
	Only      []Pick           // nil = any items of the queue
	Known     pawl.QueueLimits // what is known of the limits; they are read again
	Gate      int64            // of a queue without keys; 0 = not known
	Settled   int64            // how long after a change of the pointer all processes know it
	Searched  Search           // a search for items without a gate that the claim has made
	Alone     bool             // no other transaction writes meanwhile: what was counted before the locks still holds
}

// Admitted is the answer to an Admission.
type Admitted struct {
	Picks  []Pick // in the order in which they are handed out
	Limits []int  // what each claimant may take of them
	NextAt int64  // when a rate allows another start, by the database's clock; 0 = no rate is in the way
	Turn   Turn   // after the picks
	Now    int64

	// Busy: other claims had the gates with work, or the limits have changed. Nothing was picked,
	// and a new transaction may find some.
	Busy      bool
	Unsettled bool              // items in order may have no gate: they must be searched first
	Unlimited bool              // the queue has no limits any more
	Known     *pawl.QueueLimits // the limits, if they have changed

	ask     Admission
	hot     Hot
	rules   pawl.QueueLimits
	pointer string
	next    int64            // next_start of the queue
	gates   map[int64]*gate  // that are locked
	locked  map[string]bool  // items that are locked
	gateOf  map[string]*gate // by item
	free    int
	asked   bool // for gates whose rates allow a start again
	stale   bool // a gate has a time of its rate that the clock went back from
	rated   int  // one more than the queue's rate allows; 0 = the rate is not in the way
}

// gate is a row of gates with what is known of it.
type gate struct {
	id           int64
	pointer, key string
	next         int64
	leased       int
	counted      bool // leased was read in this transaction
	weight       int
	room, picked int
	empty        bool // its heads are all that it has
	rated        bool // its rate is what bounds its room
	held         bool // an older item holds up all that it has
	heads        []Pick
	hints        []int64 // the rows of gate_hints that were read with it
}

// gatesAtOnce is how many gates are looked at before some are locked.
const gatesAtOnce = 64

// mostGates is what gatesAtOnce grows to in a claim that looks at many gates in vain.
const mostGates = 1024

// Admit locks what it counts and returns what may be claimed. Locks are taken in the order:
// queue_limits, gates by number.
func Admit(ctx context.Context, tx Tx, hot Hot, ask Admission) (*Admitted, error) {
	a := &Admitted{Turn: ask.Turn, ask: ask, hot: hot, gates: map[int64]*gate{}, gateOf: map[string]*gate{}}
	how := shared
	if countsQueue(&ask.Known) {
		how = locked
	}
	if ask.NoWait {
		how += unlocked
	}
	row, found, err := readLimits(ctx, tx, ask.Queue, how)
	if err == nil && !found && ask.NoWait {
		if _, a.Busy, err = readLimits(ctx, tx, ask.Queue, readOnly); a.Busy {
			return a, err
		}
	}
	if err != nil || !found || row.limits.IsZero() {
		a.Unlimited = err == nil
		return a, err
	}
	if how == shared && countsQueue(&row.limits) { // to lock it now, with others that share it, could be a deadlock
		a.Busy, a.Known = true, &row.limits
		return a, nil
	}
	if a.rules = row.limits; a.ordered() && row.searchedAt < row.changedAt+ask.Settled && ask.Searched.ChangedAt != row.changedAt {
		a.Busy, a.Unsettled = true, true
		a.Known = &row.limits
		return a, nil
	}
	a.rules, a.next, a.pointer = row.limits, row.next, pointerOf(&row.limits)
	if a.rules.Rate != nil || a.rules.PerKey != nil && a.rules.PerKey.Rate != nil {
		if a.Now, err = NowAgain(ctx, tx); err == nil {
			err = a.boundNext(ctx, tx)
		}
		if err != nil {
			return a, err
		}
	}
	err = a.countQueue(ctx, tx)
	switch {
	case err != nil || a.free == 0:
	case ask.Only != nil:
		err = a.among(ctx, tx)
	case a.rules.PerKey == nil:
		err = a.first(ctx, tx)
	case a.rules.PerKey.Fair != nil && !*a.rules.PerKey.Fair:
		err = a.oldest(ctx, tx)
	default:
		err = a.choose(ctx, tx)
	}
	if err == nil && a.stale {
		err = a.boundGates(ctx, tx)
	}
	if a.rated == len(a.Picks)+1 { // the rate let no more start
		a.sooner(startFrom(a.rules.Rate, started(a.rules.Rate, a.next, a.Now, len(a.Picks))))
	}
	return a, err
}

// sooner notes when a rate allows another start.
func (a *Admitted) sooner(at int64) {
	if a.NextAt == 0 || at < a.NextAt {
		a.NextAt = at
	}
}

// countsQueue reports whether limits count the whole queue, so that claims wait for each other.
func countsQueue(l *pawl.QueueLimits) bool {
	return l.Concurrency != nil || l.PerWorker != nil || l.Rate != nil || l.PerKey == nil
}

// first picks the first items of a queue without keys.
func (a *Admitted) first(ctx context.Context, tx Tx) error {
	g := &gate{id: a.ask.Gate}
	if g.id == 0 {
		gates, err := readGates(ctx, tx, &LimitedQueue{ID: a.ask.Queue}, []string{""})
		if err != nil || len(gates) == 0 { // no item was ever queued
			return err
		}
		g.id = gates[""].ID
	}
	heads, err := a.hot.Heads(ctx, tx, a.ask.Queue, []GateWish{{Gate: g.id, Most: a.free}})
	g.heads = heads[g.id]
	for a.free > 0 && len(g.heads) > 0 {
		a.take(g)
	}
	return err
}

// countQueue sets how much the queue as a whole allows.
func (a *Admitted) countQueue(ctx context.Context, tx Tx) error {
	a.Limits = make([]int, len(a.ask.Claimants))
	held, err := a.heldByWorkers(ctx, tx)
	if err != nil {
		return err
	}
	for i := range a.ask.Claimants {
		c := &a.ask.Claimants[i]
		n := c.Limit
		if a.rules.PerWorker != nil {
			n = min(n, max(0, *a.rules.PerWorker-held[c.WorkerID]))
			held[c.WorkerID] += n
		}
		a.Limits[i], a.free = n, a.free+n
	}
	if a.rules.Concurrency != nil && a.free > 0 {
		var leased int
		if _, err := Row(ctx, tx, []any{&leased}, limitsSQL["leased of queue"], a.ask.Queue); err != nil {
			return err
		}
		a.free = min(a.free, max(0, *a.rules.Concurrency-leased))
	}
	if r := a.rules.Rate; r != nil && a.free > 0 {
		if n := startsAt(r, a.next, a.Now, a.free); n < a.free {
			a.free, a.rated = n, n+1
		}
	}
	return nil
}

// IsFull reports whether the limit for each worker lets a claimant take nothing.
func (a *Admitted) IsFull(claimant int) bool {
	return a.rules.PerWorker != nil && claimant < len(a.Limits) && a.Limits[claimant] == 0
}

// heldByWorkers counts the leases of the claimants, if there is a limit for each worker.
func (a *Admitted) heldByWorkers(ctx context.Context, tx Tx) (map[string]int, error) {
	if a.rules.PerWorker == nil {
		return nil, nil
	}
	names := make([]string, len(a.ask.Claimants))
	for i := range a.ask.Claimants {
		names[i] = a.ask.Claimants[i].WorkerID
	}
	rows, err := tx.Query(ctx, limitsSQL["leased of workers"], a.ask.Queue, List(names))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	out := map[string]int{}
	for rows.Next() {
		var name string
		var n int
		if err := rows.Scan(&name, &n); err != nil {
			return nil, err
		}
		out[name] = n
	}
	return out, rows.Err()
}

// choose picks items from the gates that have work, beginning with the gate whose turn it is. It
// looks at every gate once before it picks nothing.
func (a *Admitted) choose(ctx context.Context, tx Tx) error {
	start := a.Turn.Gate
	if a.Turn.Left > 0 {
		start--
	}
	var busy []int64
	size := gatesAtOnce
	for after, wrapped := start, start == 0; ; size = min(2*size, mostGates) {
		most := max(size, a.free)
		looked, err := a.withWork(ctx, tx, after, most)
		if err != nil {
			return err
		}
		end := len(looked) < most
		if len(looked) > 0 {
			after = looked[len(looked)-1].id
		}
		var before []*gate   // that stay ahead of the wrap
		if end && !wrapped { // those after it are dealt together with the first ones, or they would take all
			before, wrapped, most = looked, true, most-len(looked)
			if looked, err = a.withWork(ctx, tx, 0, most); err != nil {
				return err
			}
			if end, after = len(looked) < most, 0; len(looked) > 0 {
				after = looked[len(looked)-1].id
			}
		}
		if wrapped && start > 0 {
			n := len(looked)
			looked = slices.DeleteFunc(looked, func(g *gate) bool { return g.id > start })
			end = end || len(looked) < n
		}
		looked = append(before, looked...)
		skipped, err := a.pickFrom(ctx, tx, looked, false)
		if err != nil {
			return err
		}
		if busy = append(busy, skipped...); a.free == 0 {
			return nil
		}
		if end && wrapped {
			break
		}
	}
	return a.passed(ctx, tx, busy)
}

// TookMore reports whether more is locked than was picked.
func (a *Admitted) TookMore() bool {
	for _, g := range a.gates {
		if g.picked == 0 {
			return true
		}
	}
	return a.rules.PerKey != nil && len(a.locked) > len(a.Picks)
}

// passed handles gates that other claims have: these may leave some of their work. Only a claim
// that has locked no gate may wait for one.
func (a *Admitted) passed(ctx context.Context, tx Tx, busy []int64) error {
	if len(busy) == 0 || len(a.Picks) > 0 {
		return nil
	}
	if a.Busy = !a.ask.Last || a.ask.NoWait || len(a.gates) > 0; a.Busy {
		return nil
	}
	_, err := a.pickFrom(ctx, tx, []*gate{{id: busy[0], pointer: a.pointer}}, true)
	return err
}

func (a *Admitted) gatesOf(ctx context.Context, tx Tx, query string, args ...any) ([]*gate, error) {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []*gate
	for rows.Next() {
		g := &gate{counted: true}
		if err := rows.Scan(&g.id, &g.pointer, &g.key, &g.next, &g.leased); err != nil {
			return nil, err
		}
		a.setNext(g, g.next)
		out = append(out, g)
	}
	return out, rows.Err()
}

// pickFrom locks those of the gates that seem to have room, counts them and picks from them. It
// returns the gates that are locked by others. With wait it waits for them.
func (a *Admitted) pickFrom(ctx context.Context, tx Tx, gates []*gate, wait bool) (busy []int64, err error) {
	gates = slices.DeleteFunc(gates, func(g *gate) bool { return a.out(g) || a.roomOf(g) == 0 })
	for len(gates) > 0 && a.free > 0 { // no more are locked than may be needed
		n := min(len(gates), max(a.free, fewGates))
		some := gates[:n]
		gates = gates[n:]
		locked, err := a.lock(ctx, tx, some, wait)
		if err != nil {
			return nil, err
		}
		for _, g := range some {
			if !slices.Contains(locked, g) {
				busy = append(busy, g.id)
			}
		}
		if err := a.count(ctx, tx, locked); err != nil {
			return nil, err
		}
		inOrder := slices.DeleteFunc(slices.Clone(some), func(g *gate) bool { return !slices.Contains(locked, g) })
		if err := a.deal(ctx, tx, inOrder); err != nil {
			return nil, err
		}
		if err := a.forgetHeld(ctx, tx, inOrder); err != nil {
			return nil, err
		}
	}
	return busy, nil
}

// out reports whether nothing may be claimed from a gate: it has no work, it is not one of the pointer, or an older item
// of its key may have no gate yet.
func (a *Admitted) out(g *gate) bool {
	return g.empty || g.pointer != a.pointer || a.ordered() && a.ask.Searched.Left[g.key]
}

// fewGates is how many gates a claim of one item locks.
const fewGates = 2

// roomOf returns how many items of a gate may be claimed, by what is known of it.
func (a *Admitted) roomOf(g *gate) int {
	n := a.free
	k := a.rules.PerKey
	if k == nil {
		return n
	}
	if k.Concurrency != nil {
		n = min(n, max(0, *k.Concurrency-g.leased))
	}
	if k.Order == pawl.OrderCreated {
		n = min(n, max(0, 1-g.leased))
	}
	if k.Rate != nil && n > 0 {
		starts := startsAt(k.Rate, g.next, a.Now, n)
		if g.rated = starts < n; starts == 0 {
			a.sooner(startFrom(k.Rate, g.next))
		}
		n = starts
	}
	return n
}

// listOfGates returns gates by their numbers, and these numbers for @each.
func listOfGates(gates []*gate) (map[int64]*gate, string) {
	byID, ids := make(map[int64]*gate, len(gates)), make([][]int64, len(gates))
	for i, g := range gates {
		byID[g.id], ids[i] = g, []int64{g.id}
	}
	list, _ := json.Marshal(ids) // can always be encoded
	return byID, string(list)
}

// stillCounted reports whether what was read of gates needs neither a lock nor another look. What
// holds up an order is not among it.
func (a *Admitted) stillCounted(gates []*gate) bool {
	return a.ask.Alone && !a.ordered() && !slices.ContainsFunc(gates, func(g *gate) bool { return !g.counted })
}

// lock locks gates and reads their rates. A queue without keys has one gate, whose lock is that
// of its limits.
func (a *Admitted) lock(ctx context.Context, tx Tx, gates []*gate, wait bool) (locked []*gate, err error) {
	if a.rules.PerKey == nil {
		return gates, nil
	}
	if a.stillCounted(gates) {
		for _, g := range gates {
			a.gates[g.id] = g
		}
		return gates, nil
	}
	byID, list := listOfGates(gates)
	query, arg := limitsSQL["lock gates"], any(list)
	if wait {
		query, arg = limitsSQL["lock gate"], gates[0].id
	}
	rows, err := tx.Query(ctx, query, arg)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var id, next int64
		if err := rows.Scan(&id, &next); err != nil {
			return nil, err
		}
		g := byID[id]
		a.setNext(g, next)
		locked = append(locked, g)
		a.gates[id] = g
	}
	return locked, rows.Err()
}

// count counts what holds the slots of gates, now that they are locked.
func (a *Admitted) count(ctx context.Context, tx Tx, gates []*gate) error {
	if len(gates) == 0 || a.rules.PerKey == nil || a.stillCounted(gates) {
		return nil
	}
	err := countLeased(ctx, tx, a.ask.Queue, gates)
	if err == nil && a.rules.PerKey.Rate != nil {
		a.Now, err = NowAgain(ctx, tx) // after the locks
	}
	return err
}

// countLeased counts the leases of gates.
func countLeased(ctx context.Context, tx Tx, queue int64, gates []*gate) error {
	byID, list := listOfGates(gates)
	rows, err := tx.Query(ctx, limitsSQL["leased of gates"], queue, list)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var id int64
		var leased int
		if err := rows.Scan(&id, &leased); err != nil {
			return err
		}
		byID[id].leased = leased
	}
	return rows.Err()
}
