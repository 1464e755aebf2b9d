package store

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

var chainSQL = Texts(sqlFiles, "chain.sql")

// Link is one link of a task's hash chain. It is the SHA-256 of the link before it (zeros
// before the first) and the event in canonical form.
type Link [sha256.Size]byte

// linkText is the length of a link as text.
const linkText = 43

// String returns the link as 43 characters of base64.
func (l Link) String() string { return base64.RawStdEncoding.EncodeToString(l[:]) }

func readLink(text string) (l Link, ok bool) {
	n, err := base64.RawStdEncoding.Decode(l[:], []byte(text))
	return l, err == nil && n == len(l)
}

// record is an event in the form that the chain hashes: every column of its row, in the
// order of the canonical form, and the provenance that was written with it.
type record struct {
	id              int64
	namespace, task string
	texts           [12]Text // item_id … trace_parent, without attempt
	attempt         *int
	created         int64
	key             Text // the API key
	provenances     []provenanceRow
}

// provenanceRow is a row of provenances that belongs to an event.
type provenanceRow struct {
	id      string
	texts   [10]Text // item_id … extra, without attempt
	attempt *int
}

// link returns the link that follows before.
func (r *record) link(before Link, buf *[]byte) Link {
	b := append((*buf)[:0], before[:]...)
	b = r.canonical(b)
	*buf = b
	return sha256.Sum256(b)
}

// canonical appends each field as its length in bytes, a colon, its bytes and a line feed.
// An absent field has length 0. The order is that of the columns.
func (r *record) canonical(b []byte) []byte {
	b = field(b, "evt_"+strconv.FormatInt(r.id, 10))
	b = field(b, r.namespace)
	b = field(b, r.task)
	b = field(b, string(r.texts[0]))
	b = number(b, r.attempt)
	for _, t := range r.texts[1:] {
		b = field(b, string(t))
	}
	b = field(b, strconv.FormatInt(r.created, 10))
	if r.key != "" { // events from before keys were recorded keep their links
		b = field(b, string(r.key))
	}
	for _, v := range r.provenances {
		b = field(b, v.id)
		b = field(b, string(v.texts[0]))
		b = number(b, v.attempt)
		for _, t := range v.texts[1:] {
			b = field(b, string(t))
		}
	}
	return b
}

func field(b []byte, text string) []byte {
	b = strconv.AppendInt(b, int64(len(text)), 10)
	b = append(b, ':')
	b = append(b, text...)
	return append(b, '\n')
}

func number(b []byte, n *int) []byte {
	if n == nil {
		return field(b, "")
	}
	return field(b, strconv.Itoa(*n))
}

// records reads events by their numbers. They are events of the given task, or of any task
// when task is "".
func records(ctx context.Context, tx Tx, task string, ids []int64) (map[int64]*record, error) {
	out := make(map[int64]*record, len(ids))
	for _, id := range ids {
		out[id] = nil
	}
	for _, s := range spansOf(ids) {
		var w where
		if task != "" {
			w.and("e.task_id = ?", task)
		}
		w.and("e.id >= ?", s.Low)
		w.and("e.id <= ?", s.High)
		if err := readRecords(ctx, tx, w.text(chainSQL["links of events"], "e.id", int(s.High-s.Low)+1), w.args, out); err != nil {
			return nil, err
		}
		if err := readProvenances(ctx, tx, s, out); err != nil {
			return nil, err
		}
	}
	for id, r := range out {
		if r == nil {
			delete(out, id)
		}
	}
	return out, nil
}

func readRecords(ctx context.Context, tx Tx, query string, args []any, into map[int64]*record) error {
	rows, err := tx.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		r := &record{}
		t := &r.texts
		if err := rows.Scan(&r.id, &r.namespace, &r.task, &t[0], &r.attempt, &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7], &t[8], &t[9],
			&t[10], &t[11], &r.created, &r.key); err != nil {
			return err
		}
		if _, asked := into[r.id]; asked {
			into[r.id] = r
		}
	}
	return rows.Err()
}

func readProvenances(ctx context.Context, tx Tx, s Span, into map[int64]*record) error {
	rows, err := tx.Query(ctx, chainSQL["vouchers"], s.Low, s.High)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		var event int64
		var v provenanceRow
		t := &v.texts
		if err := rows.Scan(&event, &v.id, &t[0], &v.attempt, &t[1], &t[2], &t[3], &t[4], &t[5], &t[6], &t[7], &t[8], &t[9]); err != nil {
			return err
		}
		if r := into[event]; r != nil {
			r.provenances = append(r.provenances, v)
		}
	}
	return rows.Err()
}
