package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"math"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/jsonscan"
)

var limitsSQL = Texts(sqlFiles, "limits.sql")

// LimitedQueue is a queue that has limits.
type LimitedQueue struct {
	ID     int64
	Type   string
	Limits pawl.QueueLimits
}

// Pointer returns the JSON Pointer to the keys of the queue's items. Without one there is one
// key, "".
func (q *LimitedQueue) Pointer() string { return pointerOf(&q.Limits) }

func pointerOf(l *pawl.QueueLimits) string {
	if l.PerKey == nil {
		return ""
	}
	return l.PerKey.Pointer
}

// LimitsOf reads stored limits, with the defaults that depend on other members.
func LimitsOf(text string) (l pawl.QueueLimits) {
	_ = json.Unmarshal([]byte(text), &l) // written by us
	rates := []*pawl.Rate{l.Rate}
	if l.PerKey != nil {
		rates = append(rates, l.PerKey.Rate)
	}
	for _, r := range rates {
		if r != nil && r.Burst == 0 {
			r.Burst = r.Limit
		}
	}
	return l
}

// queueLimits is a row of queue_limits.
type queueLimits struct {
	text                  string
	limits                pawl.QueueLimits
	next                  int64
	changedAt, searchedAt int64
}

// How the row of limits is read. A claim that counts the whole queue locks it. Other claims share
// it, so that a change of limits waits for them.
const (
	readOnly = "limits of queue"
	shared   = "limits of queue shared"
	locked   = "limits of queue locked"
	unlocked = " now" // added to shared or locked: only if no other transaction locks it
)

// readLimits reads the limits of a queue.
func readLimits(ctx context.Context, tx Tx, queue int64, query string) (r queueLimits, found bool, err error) {
	found, err = Row(ctx, tx, []any{&r.text, &r.next, &r.changedAt, &r.searchedAt}, limitsSQL[query], queue)
	r.limits = LimitsOf(r.text)
	return r, found, err
}

// SetLimits changes the limits of a queue: change gets what is stored, as JSON, and returns what
// is to be stored and what it means. It returns the queue, and whether its items need other gates.
// Leases get theirs here. Those of claims that run beside the first limits of a queue get theirs
// from the searches that follow.
func SetLimits(ctx context.Context, tx Tx, name QueueName,
	change func(stored string) (string, pawl.QueueLimits, error)) (LimitedQueue, bool, error) {
	q := LimitedQueue{Type: name.Type}
	var err error
	if q.ID, err = QueueID(ctx, tx, name); err != nil {
		return q, false, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return q, false, err
	}
	if _, err := tx.Exec(ctx, limitsSQL["add limits"], q.ID, name.Namespace, now); err != nil {
		return q, false, err
	}
	was, _, err := readLimits(ctx, tx, q.ID, locked)
	if err != nil {
		return q, false, err
	}
	text, limits, err := change(was.text)
	if err != nil {
		return q, false, err
	}
	if now, err = NowAgain(ctx, tx); err != nil {
		return q, false, err
	}
	q.Limits = LimitsOf(text)
	if err := boundStarts(ctx, tx, &was, &q, now); err != nil {
		return q, false, err
	}
	keyed := !was.limits.IsZero() && pointerOf(&was.limits) == q.Pointer()
	changedAt := now
	if keyed {
		changedAt = was.changedAt
	}
	if _, err := tx.Exec(ctx, limitsSQL["set limits"], q.ID, text, changedAt); err != nil {
		return q, false, err
	}
	if err := hintAll(ctx, tx, q.ID, &q.Limits); err != nil {
		return q, false, err
	}
	var mark *int64
	if !limits.IsZero() {
		mark = new(int64(1))
	}
	if _, err := tx.Exec(ctx, limitsSQL["mark queue"], q.ID, mark); err != nil || mark == nil || keyed {
		return q, false, err
	}
	for k := (Keying{Queue: q, Namespace: name.Namespace}); k.OfLeases() && err == nil; {
		var found []Unkeyed
		if found, err = k.Read(ctx, tx); err == nil {
			err = k.Set(ctx, tx, found)
		}
	}
	return q, true, err
}

// boundStarts lets rates that have changed allow their burst at once.
func boundStarts(ctx context.Context, tx Tx, was *queueLimits, q *LimitedQueue, now int64) error {
	most := func(r, before *pawl.Rate) (int64, bool) {
		if r == nil {
			return 0, before != nil
		}
		return now + interval(r)*int64(r.Burst), before == nil || *before != *r
	}
	if next, changed := most(q.Limits.Rate, was.limits.Rate); changed {
		if _, err := tx.Exec(ctx, limitsSQL["bound next start of queue"], q.ID, next); err != nil {
			return err
		}
	}
	var r, before *pawl.Rate
	if k := q.Limits.PerKey; k != nil {
		r = k.Rate
	}
	if k := was.limits.PerKey; k != nil {
		before = k.Rate
	}
	if next, changed := most(r, before); changed {
		_, err := tx.Exec(ctx, limitsSQL["bound next start of gates"], q.ID, q.Pointer(), next)
		return err
	}
	return nil
}

// SearchAgain has the queues of a task's failed items, which a retry queues again, searched soon for
// items without a gate. Other queues are left: a claim in an open transaction may lock their rows.
func SearchAgain(ctx context.Context, tx Tx, id TaskID) error {
	return searchSoon(ctx, tx, "search again", id)
}

// SearchCopies is SearchAgain for all items of a task of many, which are new.
func SearchCopies(ctx context.Context, tx Tx, id TaskID) error {
	return searchSoon(ctx, tx, "search copies", id)
}

func searchSoon(ctx context.Context, tx Tx, query string, id TaskID) error {
	now, err := NowAgain(ctx, tx)
	if err == nil {
		_, err = tx.Exec(ctx, limitsSQL[query], id, now)
	}
	return err
}

// Keying gives gates to the items of a queue that have none of its pointer, in steps. The places
// are searched in an order in which no item can get from one that is still to be searched
// to one that has been.
type Keying struct {
	Queue     LimitedQueue
	Namespace string
	at        int // the index in keyedPlaces
	rank      int
	after     string
	search    Search
}

// Search says which change of a queue's limits a search for items without a gate follows, and how
// long after the change it began. Left has the keys of items that got no gate: other transactions
// locked them.
type Search struct {
	ChangedAt int64
	After     int64
	Left      map[string]bool
}

var keyedPlaces = []string{"leases", "parked_items", "waiting", "scheduled", "ready"}

const keyingStep = 500

// OfLeases reports whether the next batch is one of leases; Done, whether there is none.
func (k *Keying) OfLeases() bool { return k.at == 0 }

// Done reports whether all places were searched.
func (k *Keying) Done() bool { return k.at == len(keyedPlaces) }

// Begin notes when the search begins. It reports false if the queue has another pointer now.
func (k *Keying) Begin(ctx context.Context, tx Tx) (bool, error) {
	now, err := NowAgain(ctx, tx)
	if err != nil {
		return false, err
	}
	row, _, err := readLimits(ctx, tx, k.Queue.ID, readOnly)
	k.search = Search{ChangedAt: row.changedAt, After: now - row.changedAt}
	return pointerOf(&row.limits) == k.Queue.Pointer(), err
}

// End records the end of a search of all items. If it has left some, the next one is due at once.
func (k *Keying) End(ctx context.Context, tx Tx) (Search, error) {
	if len(k.search.Left) > 0 {
		_, err := tx.Exec(ctx, limitsSQL["key again"], k.Queue.ID)
		return k.search, err
	}
	if err := hintAll(ctx, tx, k.Queue.ID, &k.Queue.Limits); err != nil {
		return k.search, err
	}
	_, err := tx.Exec(ctx, limitsSQL["end keying"], k.Queue.ID, k.search.ChangedAt, k.search.ChangedAt+k.search.After)
	return k.search, err
}

// Read searches the next batch. It may read all items of the queue: do not call it in a
// transaction that writes, except for leases.
func (k *Keying) Read(ctx context.Context, tx Tx) ([]Unkeyed, error) {
	place, rank, after := keyedPlaces[k.at], k.rank, cmp.Or(k.after, firstItem)
	if place == "ready" && k.after == "" {
		rank = math.MinInt32
	}
	rows, err := tx.Query(ctx, inPlace("unkeyed", place), k.Queue.ID, k.Queue.Pointer(), rank, ItemID(after), keyingStep)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []Unkeyed
	for rows.Next() {
		u := Unkeyed{place: place}
		var input, payload, metadata Text
		if err := rows.Scan((*ItemID)(&u.item), &u.rank, &input, &payload, &metadata); err != nil {
			return nil, err
		}
		u.key = KeyOf(k.Queue.Pointer(), []byte(input), []byte(payload), []byte(metadata))
		out = append(out, u)
	}
	if len(out) == keyingStep {
		k.rank, k.after = out[len(out)-1].rank, out[len(out)-1].item
	} else {
		k.at, k.rank, k.after = k.at+1, 0, ""
	}
	return out, rows.Err()
}

// KeyOf returns the key of an item: the value at the pointer in its input, or else in its task's
// payload, or else in its metadata.
func KeyOf(pointer string, input, payload, metadata []byte) string {
	if pointer == "" {
		return ""
	}
	for _, in := range [][]byte{input, payload, metadata} {
		v := jsonscan.Select(in, []string{pointer})[0]
		if v == nil {
			continue
		}
		var text string
		if json.Unmarshal(v, &text) != nil {
			text = string(v)
		}
		if len(text) > pawl.MaxKeyLen {
			sum := sha256.Sum256([]byte(text))
			text = "sha256:" + hex.EncodeToString(sum[:])
		}
		return text
	}
	return ""
}

// inPlace returns the text of a statement for one of the keyedPlaces.
func inPlace(name, place string) string {
	if place == "ready" {
		return limitsSQL[name+" ready"]
	}
	return strings.ReplaceAll(limitsSQL[name], "pawl.leases", "pawl."+place)
}

// Unkeyed is an item that was found without a gate.
type Unkeyed struct {
	place, item, key string
	rank             int
}

// Set gives gates to items that Read found, as far as they are still there and no other transaction
// locks them.
func (k *Keying) Set(ctx context.Context, tx Tx, found []Unkeyed) error {
	found, err := k.lock(ctx, tx, found)
	if err != nil || len(found) == 0 {
		return err
	}
	keys := make([]string, len(found))
	for i := range found {
		keys[i] = found[i].key
	}
	gates, err := Gates(ctx, tx, k.Namespace, &k.Queue, keys)
	if err != nil {
		return err
	}
	rows := make([][]any, len(found))
	for i, u := range found {
		rows[i] = []any{k.Queue.ID, ItemID(u.item), u.rank, gates[u.key].ID}
	}
	return tx.ExecEach(ctx, inPlace("key", found[0].place), rows)
}

// lock locks items that no other transaction locks, and returns them. It notes the keys of the others.
func (k *Keying) lock(ctx context.Context, tx Tx, found []Unkeyed) ([]Unkeyed, error) {
	if len(found) == 0 {
		return nil, nil
	}
	query, list := inPlace("lock unkeyed", found[0].place), make([][]any, len(found))
	for i, u := range found {
		id, _ := parseID(itemPrefix, u.item)
		list[i] = []any{hex.EncodeToString(id[:]), u.rank}
	}
	text, _ := json.Marshal(list) // can always be encoded
	free, err := ItemIDs(ctx, tx, query, k.Queue.ID, string(text))
	if err != nil {
		return nil, err
	}
	is := map[string]bool{}
	for _, id := range free {
		is[id] = true
	}
	return slices.DeleteFunc(slices.Clone(found), func(u Unkeyed) bool {
		if !is[u.item] {
			if k.search.Left == nil {
				k.search.Left = map[string]bool{}
			}
			k.search.Left[u.key] = true
		}
		return !is[u.item]
	}), nil
}

// QueuesWithBareLeases returns the queues with limits that have leases without a gate, of claims that
// ran beside the first limits.
func QueuesWithBareLeases(ctx context.Context, tx Tx) ([]KeyingDue, error) {
	return keyings(ctx, tx, limitsSQL["queues with bare leases"])
}

// KeyingDue is a queue whose items are to be searched for those without a gate.
type KeyingDue struct {
	Namespace string
	Queue     LimitedQueue
	before    int64
}

// DueKeying returns the queues that are due: those that were not searched since the pointer
// has been known everywhere (soon microseconds after it changed), or since no statement that
// did not know it can still run (late), those whose last search began long ago (every), and those
// to which an item without a gate has come back.
func DueKeying(ctx context.Context, tx Tx, soon, late, every int64) ([]KeyingDue, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return nil, err
	}
	return keyings(ctx, tx, limitsSQL["keying due"], soon, late, now, every, searchHint)
}

func keyings(ctx context.Context, tx Tx, query string, args ...any) ([]KeyingDue, error) {
	return All(ctx, tx, query, args, func(rows Rows, d *KeyingDue) error {
		var text string
		if err := rows.Scan(&d.Queue.ID, &d.Namespace, &d.Queue.Type, &text, &d.before); err != nil {
			return err
		}
		d.Queue.Limits = LimitsOf(text)
		return nil
	})
}

// searchHint is the time of the rows of gate_hints that ask for a search of their queue.
const searchHint = -1

// Begin records that the search begins. It reports false if another process has begun it.
func (d *KeyingDue) Begin(ctx context.Context, tx Tx) (bool, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	n, err := tx.Exec(ctx, limitsSQL["begin keying"], d.Queue.ID, d.before, now)
	if err != nil || n == 0 {
		return false, err
	}
	_, err = tx.Exec(ctx, limitsSQL["forget search"], d.Queue.ID, searchHint)
	return true, err
}
