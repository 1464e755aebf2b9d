package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// sealCursor is the cursor up to which the feed is sealed.
const sealCursor = "seal"

const (
	// sealLimit bounds the events that are sealed in one transaction. The larger it is, the
	// more events of a task share one seal.
	sealLimit = 20_000
	// sealPages bounds the pages of the feed that are read for one transaction. A packed page
	// has thousands of events.
	sealPages = 256
)

// Batch has the next events to be sealed, read in one snapshot.
type Batch struct {
	After, Through int64 // positions: sealed up to After now, and up to Through with the batch
	Age            int64 // microseconds since the last sealing
	Lag            int64 // microseconds since the oldest event of the batch
	More           bool  // there may be more events after the batch
	seals          []seal
}

// seal is a row of seals to insert.
type seal struct {
	task  string
	last  int64
	ids   []int64
	links strings.Builder
}

// NextBatch reads the events to be sealed next and computes their links.
func NextBatch(ctx context.Context, tx Tx, commits *Commits) (Batch, error) {
	var b Batch
	var updated int64
	if _, err := Row(ctx, tx, []any{&b.After, &updated}, chainSQL["sealed to"]); err != nil {
		return b, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return b, err
	}
	b.Age = now - updated
	var ids []int64
	if ids, b.Through, b.More, err = unsealed(ctx, tx, commits, b.After); err != nil || len(ids) == 0 {
		return b, err
	}
	found, err := records(ctx, tx, "", ids)
	if err != nil {
		return b, err
	}
	events := make([]*record, 0, len(ids))
	for _, id := range ids {
		if r := found[id]; r != nil && r.texts[1] != "deleted" { // nil: its task was deleted; a tombstone is sealed with the deletion
			events = append(events, r)
		}
	}
	if len(events) > 0 {
		b.Lag = now - events[0].created
	}
	b.seals, err = chained(ctx, tx, events)
	return b, err
}

// unsealed lists the numbers of the events after a position, in feed order.
func unsealed(ctx context.Context, tx Tx, commits *Commits, after int64) (ids []int64, through int64, more bool, err error) {
	if commits == nil {
		ids, err = Ints(ctx, tx, feedSQL["numbers"], after, int64(1)<<62, sealLimit)
		if n := len(ids); n > 0 {
			after = ids[n-1]
		}
		return ids, after, len(ids) == sealLimit, err
	}
	s, err := ReadFeed(ctx, tx)
	if err != nil || s.Position <= after {
		return nil, after, false, err
	}
	pages, err := FeedPages(ctx, tx, after+1, sealLimit, sealPages)
	through = s.Position // missing pages were removed
	for _, p := range pages {
		p.IDs = p.IDs[:min(len(p.IDs), sealLimit-len(ids))]
		ids = append(ids, p.IDs...)
		through = p.First + int64(len(p.IDs)) - 1
	}
	return ids, through, through < s.Position, err
}

// chained returns one seal for each task of the events. It continues the task's chain.
func chained(ctx context.Context, tx Tx, events []*record) ([]seal, error) {
	at := map[string]int{}
	var seals []seal
	var old [][1]string
	for _, r := range events {
		if _, known := at[r.task]; !known {
			at[r.task] = len(seals)
			seals = append(seals, seal{task: r.task})
			if r.texts[1] != "proposed" { // a task's first event has no link before it
				old = append(old, [1]string{r.task})
			}
		}
	}
	heads := make([]Link, len(seals))
	if err := readHeads(ctx, tx, old, func(task string, last int64, head Link) {
		seals[at[task]].last, heads[at[task]] = last, head
	}); err != nil {
		return nil, err
	}
	var buf []byte
	for _, r := range events {
		i := at[r.task]
		heads[i] = r.link(heads[i], &buf)
		s := &seals[i]
		s.last++
		s.ids = append(s.ids, r.id)
		s.links.WriteString(heads[i].String())
	}
	return seals, nil
}

// readHeads passes the chain heads of the tasks to fn. A task without a seal is left out.
func readHeads(ctx context.Context, tx Tx, tasks [][1]string, fn func(task string, last int64, head Link)) error {
	if len(tasks) == 0 {
		return nil
	}
	text, err := json.Marshal(tasks)
	if err != nil {
		return err
	}
	rows, err := tx.Query(ctx, chainSQL["heads"], string(text), linkText)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var task string
		var at Text
		if err := rows.Scan(&task, &at); err != nil {
			return err
		}
		if last, link, sealed := strings.Cut(string(at), " "); sealed {
			n, err := strconv.ParseInt(last, 10, 64)
			if err != nil {
				return err
			}
			head, _ := readLink(link) // a damaged link is found when the chain is verified
			fn(task, n, head)
		}
	}
	return rows.Err()
}

// PutBatch seals a batch. It returns false when another process has sealed events in the
// meantime. Events of tasks that no longer exist are left out.
func PutBatch(ctx context.Context, tx Tx, b *Batch) (bool, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	at, err := LockCursor(ctx, tx, sealCursor)
	if err != nil || at.Position != b.After {
		return false, err
	}
	if err := putSeals(ctx, tx, now, b.seals); err != nil {
		return false, err
	}
	at.Position = b.Through
	return true, MoveCursor(ctx, tx, now, sealCursor, at)
}

func putSeals(ctx context.Context, tx Tx, now int64, seals []seal) error {
	if len(seals) == 0 {
		return nil
	}
	rows := make([][5]any, len(seals))
	for i := range seals {
		s := &seals[i]
		rows[i] = [5]any{s.task, s.last, len(s.ids), base64.RawStdEncoding.EncodeToString(Pack(s.ids)), s.links.String()}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, chainSQL["put seals"], string(text), now)
	return err
}

// SealRemaining seals events of a task that the sealing has passed without sealing them,
// because the task was in its archive then.
func SealRemaining(ctx context.Context, tx Tx, commits *Commits, taskID string) error {
	at, err := LockCursor(ctx, tx, sealCursor)
	if err != nil {
		return err
	}
	ids, err := Ints(ctx, tx, chainSQL["numbers of task"], taskID)
	if err != nil {
		return err
	}
	sealed := map[int64]bool{}
	err = eachSeal(ctx, tx, taskID, func(s sealRow) error {
		for _, id := range s.ids {
			sealed[id] = true
		}
		return nil
	})
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, func(id int64) bool { return sealed[id] })
	passed, err := passedBy(ctx, tx, commits, at.Position, ids)
	if err != nil || len(passed) == 0 {
		return err
	}
	found, err := records(ctx, tx, taskID, passed)
	if err != nil {
		return err
	}
	events := make([]*record, len(passed))
	for i, id := range passed {
		events[i] = found[id]
	}
	seals, err := chained(ctx, tx, events)
	if err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	return putSeals(ctx, tx, now, seals)
}

// passedBy returns those of the given events, in order, that the sealing has passed: they
// have no position after the one up to which the feed is sealed, and will not get one.
func passedBy(ctx context.Context, tx Tx, commits *Commits, sealed int64, ids []int64) ([]int64, error) {
	if commits == nil {
		return slices.DeleteFunc(ids, func(id int64) bool { return id > sealed }), nil
	}
	s, err := ReadFeed(ctx, tx)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(ids, func(id int64) bool {
		return id > s.Top || slices.ContainsFunc(s.Gaps, func(g Span) bool { return g.Low <= id && id <= g.High })
	})
	for after := sealed; len(ids) > 0 && after < s.Position; {
		pages, err := FeedPages(ctx, tx, after+1, sealLimit, sealPages)
		if err != nil || len(pages) == 0 {
			return ids, err
		}
		for _, p := range pages {
			waiting := map[int64]bool{}
			for _, id := range p.IDs {
				waiting[id] = true
			}
			ids = slices.DeleteFunc(ids, func(id int64) bool { return waiting[id] })
			after = p.First + int64(len(p.IDs)) - 1
		}
	}
	return ids, nil
}
