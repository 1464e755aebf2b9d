package store

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

// update is a position in a list by updated_at. No column holds this time: it is the time
// of the task's newest event. With an indexed column, every move of an item would have to
// write to its task.
type update struct {
	at int64
	id string
}

func (u update) String() string { return strconv.FormatInt(u.at, 10) + "_" + u.id }

func (u update) compare(o update) int {
	return cmp.Or(cmp.Compare(u.at, o.at), cmp.Compare(u.id, o.id))
}

// byUpdate lists tasks in the order of updated_at and id. If there are few candidates, it
// sorts them. Otherwise it reads windows of time one after another, and in each the events
// that are the newest of their task.
type byUpdate struct {
	*listing[pawl.Task]
	filter pawl.TaskFilter
}

func (l *byUpdate) page(ctx context.Context, tx Tx, namespace string) ([]pawl.Task, error) {
	from, to, err := l.bounds()
	if err != nil {
		return nil, err
	}
	ids, few, err := l.few(ctx, tx, namespace, from)
	if err != nil {
		return nil, err
	}
	var out []pawl.Task
	read := func(some []update) (bool, error) {
		rows, err := l.take(ctx, tx, some)
		out = append(out, rows...)
		return len(out) > l.limit, err
	}
	if few {
		err = l.sort(ctx, tx, ids, from, to, read)
	} else {
		err = l.windows(ctx, tx, namespace, from, to, read)
	}
	return out[:min(len(out), l.limit+1)], err
}

// bounds returns the positions between which the page lies; both are excluded.
func (l *byUpdate) bounds() (from, to update, err error) {
	to = update{at: math.MaxInt64}
	if l.filter.Changed.After(Stamp(0)) {
		from.at = l.filter.Changed.UnixMicro()
	}
	if l.cursor == "" {
		return from, to, nil
	}
	at, id, _ := strings.Cut(l.cursor, "_")
	n, err := strconv.ParseInt(at, 10, 64)
	if _, ok := TaskID(id).Bytes(); err != nil || n < 0 || !ok {
		return from, to, NotACursor()
	}
	if u := (update{n, id}); l.desc {
		to = u
	} else if u.compare(from) > 0 {
		from = u
	}
	return from, to, nil
}

// few returns the ids of all tasks after from that the list may want, if there are few.
func (l *byUpdate) few(ctx context.Context, tx Tx, namespace string, from update) ([]string, bool, error) {
	if ids := l.filter.IDs; len(ids) > 0 {
		return ids, true, nil
	}
	if l.changed {
		l.sets[0].args[0] = from.at
	}
	if ids, few, err := l.listing.few(ctx, tx, namespace, ""); few || err != nil {
		return ids, few, err
	}
	var w Where
	w.And("t.namespace = ?", namespace)
	w.tasks(&pawl.TaskFilter{RequestedBy: l.filter.RequestedBy, InputHash: l.filter.InputHash}) // these have indexes
	ids, err := TaskIDs(ctx, tx, w.Text("SELECT t.id FROM pawl.tasks t", "t.id", fewCandidates+1), w.Args...)
	return ids, len(ids) <= fewCandidates, err
}

// sort passes those of the given tasks that lie between from and to to read, in order,
// until read has enough.
func (l *byUpdate) sort(ctx context.Context, tx Tx, ids []string, from, to update, read func([]update) (bool, error)) error {
	w := l.own.with("t.id @among_ids(?)", TaskList(ids))
	all, err := updates(ctx, tx, w.Text("SELECT "+readSQL["updated"]+", t.id\nFROM pawl.tasks t", "t.id", len(ids)), w.Args...)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(u update) bool { return u.compare(from) <= 0 || u.compare(to) >= 0 })
	slices.SortFunc(all, update.compare)
	if l.desc {
		slices.Reverse(all)
	}
	for some := range slices.Chunk(all, 2*l.limit) {
		if done, err := read(some); done || err != nil {
			return err
		}
	}
	return nil
}

// eventsInWindow is the approximate number of events in the first window of a list. Each
// next window is longer by the factor windowGrowth.
const (
	eventsInWindow = 10_000
	windowGrowth   = 4
)

// windows passes the tasks that lie between from and to to read, in order, until read has
// enough. Events are not quite in the order of their numbers, so the first and the last
// window are open.
func (l *byUpdate) windows(ctx context.Context, tx Tx, namespace string, from, to update, read func([]update) (bool, error)) error {
	var oldest, newest, events int64
	if found, err := Row(ctx, tx, []any{&oldest, &newest, &events}, readSQL["span of events"]); err != nil || !found {
		return err
	}
	order, beyond := "e.created_at, e.task_id", ">"
	if l.desc {
		order, beyond = "e.created_at DESC, e.task_id DESC", "<"
	}
	newestOf := Where{conds: []string{"e.namespace = $1"}, Args: l.own.Args}
	if len(l.own.conds) > 1 { // the first condition is the namespace, $1
		newestOf.And("(SELECT 1 FROM pawl.tasks t WHERE t.id = e.task_id AND " + strings.Join(l.own.conds, " AND ") + " LIMIT 1) = 1")
	}
	newestOf = newestOf.with(readSQL["newest of its task"])
	length := max(1, (newest-oldest)/max(1, events/eventsInWindow))
	low, high := from.at, to.at
	if high != math.MaxInt64 {
		high++ // include other tasks of that time
	}
	for size := l.limit + 1; ; length *= windowGrowth {
		begin, end, behind := low, high, from
		if l.desc {
			if begin, behind = max(low, min(high, newest)-length), to; begin < oldest {
				begin = low
			}
		} else if end = min(high, max(low, oldest)+length); end > newest {
			end = high
		}
		for {
			w := newestOf.with("e.created_at >= ?", begin).with("e.created_at < ?", end).with("(e.created_at, e.task_id) "+beyond+" (?, ?)",
				behind.at, FromTask(behind.id))
			some, err := updates(ctx, tx, w.Text("SELECT e.created_at, e.task_id\nFROM pawl.task_events e", order, size), w.Args...)
			if err != nil {
				return err
			}
			if done, err := read(some); done || err != nil {
				return err
			}
			if len(some) < size {
				break
			}
			behind, size = some[len(some)-1], min(2*size, max(pawl.MaxPage, l.limit+1))
		}
		switch {
		case l.desc && begin == low, !l.desc && end == high:
			return nil
		case l.desc:
			high = begin
		default:
			low = end
		}
	}
}

// take reads the tasks at the given positions, in the list's order.
func (l *byUpdate) take(ctx context.Context, tx Tx, some []update) ([]pawl.Task, error) {
	ids := make([]string, len(some))
	for i, u := range some {
		ids[i] = u.id
	}
	return l.wanted(ctx, tx, ids)
}

func updates(ctx context.Context, tx Tx, query string, args ...any) ([]update, error) {
	return All(ctx, tx, query, args, func(rows Rows, u *update) error {
		return rows.Scan(&u.at, (*TaskID)(&u.id))
	})
}
