package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
)

// sealCursor is how far the feed is sealed.
const sealCursor = "seal"

// sealLimit bounds the events that are sealed in one transaction.
const sealLimit = 5000

// Batch is the next events to be sealed, read in one snapshot.
type Batch struct {
	After, Through int64 // positions: sealed so far, and with it
	Age            int64 // since the last sealing, in microseconds
	Events         int
	seals          []seal
}

// Full says that there may be more behind it.
func (b *Batch) Full() bool { return b.Events == sealLimit }

// seal is a row of seals to insert.
type seal struct {
	task  string
	last  int64
	ids   []int64
	links strings.Builder
}

// NextBatch reads what is to be sealed next, and makes its links.
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
	ids, through, err := unsealed(ctx, tx, commits, b.After)
	if b.Through = through; err != nil || len(ids) == 0 {
		return b, err
	}
	b.Events = len(ids)
	found, err := records(ctx, tx, "", ids)
	if err != nil {
		return b, err
	}
	events := make([]*record, 0, len(ids))
	for _, id := range ids {
		if r := found[id]; r != nil { // else its task was deleted
			events = append(events, r)
		}
	}
	b.seals, err = chained(ctx, tx, events)
	return b, err
}

// unsealed lists the numbers of the events behind a position, in feed order.
func unsealed(ctx context.Context, tx Tx, commits *Commits, after int64) (ids []int64, through int64, err error) {
	if commits == nil {
		ids, err = Ints(ctx, tx, feedSQL["numbers"], after, int64(1)<<62, sealLimit)
		if n := len(ids); n > 0 {
			return ids, ids[n-1], err
		}
		return nil, after, err
	}
	s, err := ReadFeed(ctx, tx)
	if err != nil || s.Position <= after {
		return nil, after, err
	}
	pages, err := FeedPages(ctx, tx, after+1, sealLimit, sealLimit)
	through = s.Position // a page that is not to be found is gone
	for _, p := range pages {
		p.IDs = p.IDs[:min(len(p.IDs), sealLimit-len(ids))]
		ids = append(ids, p.IDs...)
		through = p.First + int64(len(p.IDs)) - 1
	}
	return ids, through, err
}

// chained makes a seal for each task of the events, behind what it has.
func chained(ctx context.Context, tx Tx, events []*record) ([]seal, error) {
	at := map[string]int{}
	var seals []seal
	var tasks []string
	for _, r := range events {
		if _, known := at[r.task]; !known {
			at[r.task] = len(seals)
			seals = append(seals, seal{task: r.task})
			tasks = append(tasks, r.task)
		}
	}
	heads := make([]Link, len(seals))
	rows, err := tx.Query(ctx, chainSQL["heads"], List(tasks))
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var task, link string
		var last int64
		if err := rows.Scan(&task, &last, &link); err != nil {
			return nil, err
		}
		i := at[task]
		seals[i].last = last
		heads[i], _ = readLink(link) // one that is damaged is found by who verifies
	}
	if err := rows.Err(); err != nil {
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

// PutBatch seals a batch; false when somebody else has sealed meanwhile. Events of
// tasks that are gone by now are left out.
func PutBatch(ctx context.Context, tx Tx, b *Batch) (bool, error) {
	now, err := tx.Now(ctx)
	if err != nil {
		return false, err
	}
	at, err := HoldCursor(ctx, tx, sealCursor)
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

// SealRest seals what the feed has passed of a task and nobody sealed: it was away
// in its archive then.
func SealRest(ctx context.Context, tx Tx, commits *Commits, taskID string) error {
	at, err := HoldCursor(ctx, tx, sealCursor)
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

// passedBy are those of some events, in order, whose turn to be sealed is over:
// they have no position behind the one that the feed is sealed to, and will not
// get one.
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
		pages, err := FeedPages(ctx, tx, after+1, sealLimit, sealLimit)
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
