package store

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// Chain is the result of verifying a task's hash chain.
type Chain struct {
	TaskID   string      `json:"task_id"`
	Intact   bool        `json:"intact"`
	Events   int         `json:"events"`              // the number of events that the task has
	Sealed   int64       `json:"sealed"`              // the number of sealed events; the rest is not sealed yet
	Head     string      `json:"head,omitempty"`      // the last link; if it is kept elsewhere, no earlier event can be changed unseen
	SealedAt *time.Time  `json:"sealed_at,omitempty"` // when the last event was sealed
	Break    *ChainBreak `json:"break,omitempty"`
	Deleted  *Deleted    `json:"deleted,omitempty"` // set when the task was deleted: the chain is its event `deleted`
}

// Deleted is what the event log says about the deletion of a task.
type Deleted struct {
	EventID   string    `json:"event_id"`
	At        time.Time `json:"at"`
	ActorType string    `json:"actor_type"`
	ActorID   string    `json:"actor_id,omitempty"`
	Tombstone
}

// ChainBreak is the first position at which a chain does not match the events.
type ChainBreak struct {
	Kind    string `json:"kind"` // changed, missing, inserted, reordered, seals, head
	EventID string `json:"event_id,omitempty"`
	Place   int64  `json:"place,omitempty"` // the position in the chain, from 1
	Found   string `json:"found"`
}

// sealRow is a row of seals. sound says that its contents are consistent.
type sealRow struct {
	last    int64
	ids     []int64
	links   []Link
	sound   bool
	created int64
}

func eachSeal(ctx context.Context, tx Tx, taskID string, fn func(sealRow) error) error {
	rows, err := tx.Query(ctx, chainSQL["seals"], taskID)
	if err != nil {
		return err
	}
	defer rows.Close()
	var all []sealRow // fn needs the connection for its queries
	for rows.Next() {
		var s sealRow
		var count int
		var ids, links string
		if err := rows.Scan(&s.last, &count, &ids, &links, &s.created); err != nil {
			return err
		}
		packed, err := base64.RawStdEncoding.DecodeString(ids)
		s.ids, s.sound = Unpack(packed), err == nil && len(links) == count*linkText
		for ; len(links) >= linkText; links = links[linkText:] {
			l, ok := readLink(links[:linkText])
			s.links, s.sound = append(s.links, l), s.sound && ok
		}
		s.sound = s.sound && count > 0 && len(s.ids) == count
		all = append(all, s)
	}
	if err := rows.Err(); err != nil {
		return err
	}
	rows.Close()
	for _, s := range all {
		if err := fn(s); err != nil {
			return err
		}
	}
	return nil
}

// errBroken ends the reading of a chain.
type errBroken struct{ at ChainBreak }

func (errBroken) Error() string { return "the chain is broken" }

// VerifyChain compares a task's events with its hash chain, in one snapshot. head is a
// link that was kept elsewhere and must be in the chain; "" = none.
func VerifyChain(ctx context.Context, tx Tx, commits *Commits, taskID, head string) (Chain, error) {
	c := Chain{TaskID: taskID}
	kept, given := Link{}, head != ""
	if given {
		kept, _ = readLink(head)
	}
	found := !given
	sealed := map[int64]bool{}
	var before Link
	err := eachSeal(ctx, tx, taskID, func(s sealRow) error {
		if !s.sound || s.last-int64(len(s.ids)) != c.Sealed {
			return errBroken{ChainBreak{Kind: "seals", Place: c.Sealed + 1,
				Found: fmt.Sprintf("the seals from event %d of the chain on are missing or damaged", c.Sealed+1)}}
		}
		if err := s.hold(ctx, tx, taskID, c.Sealed, before); err != nil {
			return err
		}
		for i, id := range s.ids {
			sealed[id] = true
			found = found || s.links[i] == kept
		}
		at := Stamp(s.created)
		before, c.Sealed, c.SealedAt = s.links[len(s.links)-1], s.last, &at
		c.Head = before.String()
		return nil
	})
	if b, broken := err.(errBroken); broken {
		c.Break, err = &b.at, nil
	}
	if err != nil {
		return c, err
	}
	ids, err := Ints(ctx, tx, chainSQL["numbers of task"], taskID)
	if c.Events = len(ids); err != nil || c.Break != nil {
		return c, err
	}
	var position, updated int64
	if _, err := Row(ctx, tx, []any{&position, &updated}, chainSQL["sealed to"]); err != nil {
		return c, err
	}
	strange, err := passedBy(ctx, tx, commits, position, slices.DeleteFunc(ids, func(id int64) bool { return sealed[id] }))
	switch {
	case err != nil:
		return c, err
	case len(strange) > 0:
		c.Break = &ChainBreak{Kind: "inserted", EventID: eventID(strange[0]), Found: "it is in no seal, though the record is sealed beyond it"}
	case !found:
		c.Break = &ChainBreak{Kind: "head", Found: fmt.Sprintf("the chain of %d events does not hold the head that was kept: its end was cut "+
			"off, or it was written anew", c.Sealed)}
	}
	c.Intact = c.Break == nil
	return c, nil
}

func eventID(id int64) string { return "evt_" + strconv.FormatInt(id, 10) }

// hold compares the events of a seal with its links.
func (s *sealRow) hold(ctx context.Context, tx Tx, taskID string, place int64, before Link) error {
	events, err := records(ctx, tx, taskID, s.ids)
	if err != nil {
		return err
	}
	var buf []byte
	first := before
	for i, id := range s.ids {
		r := events[id]
		at := ChainBreak{EventID: eventID(id), Place: place + int64(i) + 1}
		switch {
		case r == nil:
			at.Kind, at.Found = "missing", "it was sealed, and is not there"
			return errBroken{at}
		case r.link(before, &buf) == s.links[i]:
			before = s.links[i]
			continue
		}
		at.Kind, at.Found = "changed", "it is not what was sealed"
		if j := s.origin(r, events, first, &buf); j >= 0 {
			at.Kind, at.Found = "reordered", "what stands here was sealed as "+eventID(s.ids[j])
		}
		return errBroken{at}
	}
	return nil
}

// origin returns the position at which an event's content was sealed, or -1 when it was
// sealed nowhere in this seal.
func (s *sealRow) origin(r *record, events map[int64]*record, before Link, buf *[]byte) int {
	for j, id := range s.ids {
		moved := *r
		moved.id, moved.provenances = id, nil
		if own := events[id]; own != nil {
			moved.provenances = own.provenances
		}
		if id != r.id && moved.link(before, buf) == s.links[j] {
			return j
		}
		before = s.links[j]
	}
	return -1
}

// TasksBefore lists up to limit tasks of all namespaces, newest first, with ids below id.
// EndOfTime starts at the newest.
func TasksBefore(ctx context.Context, tx Tx, id string, limit int) ([]string, error) {
	return Strings(ctx, tx, chainSQL["tasks before"], id, limit)
}
