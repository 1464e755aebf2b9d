package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

var leafSQL = Texts(sqlFiles, "leaf.sql")

// leafVersion is the first byte of a leaf. It rises when the canonical form changes.
const leafVersion = 1

// The kinds of leaves: the first field of each.
const (
	leafEvent    = "event"
	leafRemoval  = "removal"  // events were removed: which
	leafRestored = "restored" // events were restored from an archive: which
)

// leafText is a column of an event as stored; NULL reads as empty. Its bytes are valid
// until the next row.
type leafText []byte

// BytesTarget is scanned into without an allocation for each row: the column's bytes, of
// text too, are written into the room that it returns. NULL has none.
type BytesTarget interface{ Room(n int) []byte }

// Room implements BytesTarget.
func (t *leafText) Room(n int) []byte {
	*t = slices.Grow((*t)[:0], n)[:n]
	return *t
}

// ScanBytes implements pgtype.BytesScanner.
func (t *leafText) ScanBytes(v []byte) error {
	*t = append((*t)[:0], v...)
	return nil
}

// Scan implements sql.Scanner.
func (t *leafText) Scan(v any) error {
	var s Text
	err := s.Scan(v)
	*t = append((*t)[:0], s...)
	return err
}

// leafRef scans the id of a task or item into a column as its text.
type leafRef struct {
	prefix string
	text   *leafText
}

// SetBytes implements IDTarget.
func (r leafRef) SetBytes(b [16]byte) { *r.text = appendID((*r.text)[:0], r.prefix, b) }

// SetNull implements IDTarget.
func (r leafRef) SetNull() { *r.text = (*r.text)[:0] }

// Scan implements sql.Scanner.
func (r leafRef) Scan(v any) error { return scanID(v, r) }

// Where the texts of a leafRow are that decide which value the event stands for.
const (
	leafItem = 2
	leafDiff = 8
)

// leafRow is a row of the statement "events for leaves".
type leafRow struct {
	id, attempt, created int64
	move                 int
	texts                [10]leafText // from the namespace on, in the order of the columns
	dest                 []any

	// Not of the leaf: see Tally.
	queue, since int64
	kind         leafText

	digest leafText // that the verb stored with the event; empty = none
}

func newLeafRow() *leafRow {
	r := &leafRow{}
	r.dest = []any{&r.id, &r.attempt, &r.created, &r.move}
	for i := range r.texts {
		r.dest = append(r.dest, &r.texts[i])
	}
	r.dest = append(r.dest, &r.queue, &r.since, &r.kind, &r.digest)
	r.dest[5], r.dest[6] = leafRef{taskPrefix, &r.texts[1]}, leafRef{itemPrefix, &r.texts[2]}
	return r
}

// canonical appends the event in canonical form, without the digests and its provenance. m is what its code
// stands for.
func (r *leafRow) canonical(b []byte, m MoveCode) []byte {
	b = append(b, leafVersion)
	b = leafField(b, leafEvent)
	b = leafID(b, r.id)
	for _, t := range r.texts[:3] { // namespace, task, item
		b = leafField(b, t)
	}
	b = leafNumber(b, r.attempt)
	for _, name := range [...]string{m.Event, m.From, m.To, m.TaskFrom, m.TaskTo} {
		b = leafField(b, name)
	}
	for _, t := range r.texts[3:] {
		b = leafField(b, t)
	}
	return leafNumber(b, r.created)
}

// digestIn reads a digest in hexadecimal.
func digestIn(text string) (sum Digest, ok bool) {
	b, err := hex.DecodeString(text)
	return Digest(append(b, make([]byte, sha256.Size)...)[:sha256.Size]), err == nil && len(b) == sha256.Size
}

// replacement reads the digests of an event `updated` of a task whose payload was replaced: what it
// was and what it became. ok is false for other diffs.
func replacement(diff string) (from, to Digest, ok bool) {
	var d struct {
		Payload struct{ From, To string } `json:"payload"`
	}
	if !strings.HasPrefix(diff, `{"payload":{"from":"`+digestPrefix) || json.Unmarshal([]byte(diff), &d) != nil {
		return from, to, false
	}
	from, one := digestIn(strings.TrimPrefix(d.Payload.From, digestPrefix))
	to, other := digestIn(strings.TrimPrefix(d.Payload.To, digestPrefix))
	return from, to, one && other
}

// maxReplaced bounds the payloads that olderLeaves tries.
const maxReplaced = 100

// olderLeaves returns the leaves that older programs gave to events: those that logged the creation
// of a task after its payload had been replaced took the digest of the payload that they found.
func olderLeaves(ctx context.Context, tx Tx, ids []int64) (map[int64][]tlog.Hash, error) {
	later, most := map[int64][]Digest{}, 0
	for _, s := range spansOf(ids) {
		err := EachRow(ctx, tx, func(rows Rows) error {
			var id int64
			var diff Text
			err := rows.Scan(&id, &diff)
			if _, to, ok := replacement(string(diff)); ok && len(later[id]) < maxReplaced {
				later[id] = append(later[id], to)
				most = max(most, len(later[id]))
			}
			return err
		}, leafSQL["replacements after"], s.Low, s.High)
		if err != nil {
			return nil, err
		}
	}
	out := map[int64][]tlog.Hash{}
	for n := range most {
		leaves, err := leavesWith(ctx, tx, slices.Collect(maps.Keys(later)), func(context.Context, Tx, Span) (digests, error) {
			some := digests{}
			for id, sums := range later {
				if n < len(sums) {
					some[id] = sums[n]
				}
			}
			return some, nil
		})
		if err != nil {
			return nil, err
		}
		for id, leaf := range leaves {
			out[id] = append(out[id], leaf)
		}
	}
	return out, nil
}

// leafField appends a field: its length in bytes, four bytes with the highest first, and
// its bytes. An absent field has length 0.
func leafField[T string | leafText](b []byte, text T) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(text)))
	return append(b, text...)
}

// leafNumber appends a number in decimal; 0 is an absent field.
func leafNumber(b []byte, n int64) []byte {
	if n == 0 {
		return leafField(b, "")
	}
	at := len(b)
	b = strconv.AppendInt(append(b, 0, 0, 0, 0), n, 10)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

func leafID(b []byte, id int64) []byte {
	at := len(b)
	b = strconv.AppendInt(append(b, 0, 0, 0, 0, 'e', 'v', 't', '_'), id, 10)
	binary.BigEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	return b
}

// leaves hashes events, by number. Events that do not exist are left out.
func leaves(ctx context.Context, tx Tx, ids []int64) (map[int64]tlog.Hash, error) {
	return leavesWith(ctx, tx, ids, leafDigests)
}

// bareLeaves is leaves without the digests of inputs and results. The leaf of an event whose
// value was gone when it was logged, and that had no stored digest, has none.
func bareLeaves(ctx context.Context, tx Tx, ids []int64) (map[int64]tlog.Hash, error) {
	return leavesWith(ctx, tx, ids, func(context.Context, Tx, Span) (digests, error) { return nil, nil })
}

func leavesWith(ctx context.Context, tx Tx, ids []int64, digest digestsFunc) (map[int64]tlog.Hash, error) {
	leaves, there, err := leavesOf(ctx, tx, ids, digest, nil)
	out := make(map[int64]tlog.Hash, len(ids))
	for i, id := range ids {
		if err == nil && there[i] {
			out[id] = leaves[i]
		}
	}
	return out, err
}

// leavesOf hashes events, in the order of their numbers in the list. there says which exist; a
// number below 1 is of none. counted gets the events too; nil = not counted.
func leavesOf(ctx context.Context, tx Tx, ids []int64, digest digestsFunc, counted *Tally) (out []tlog.Hash, there []bool, err error) {
	out, there = make([]tlog.Hash, len(ids)), make([]bool, len(ids))
	order := make([]int, 0, len(ids)) // of the numbers
	sorted := make([]int64, 0, len(ids))
	for i, id := range ids {
		if id > 0 {
			order, sorted = append(order, i), append(sorted, id)
		}
	}
	if !slices.IsSorted(sorted) {
		slices.SortFunc(order, func(a, b int) int { return cmp.Compare(ids[a], ids[b]) })
		slices.Sort(sorted)
	}
	next := 0
	for _, s := range spansOf(sorted) {
		err := eachLeaf(ctx, tx, s, digest, func(r *leafRow, m MoveCode, leaf []byte) {
			id := r.id
			for next < len(sorted) && sorted[next] < id {
				next++
			}
			if next == len(sorted) || sorted[next] > id {
				return
			}
			if counted != nil {
				counted.count(r, m)
			}
			hash := tlog.Hash(sha256.Sum256(leaf))
			for ; next < len(sorted) && sorted[next] == id; next++ {
				out[order[next]], there[order[next]] = hash, true
			}
		})
		if err != nil {
			return nil, nil, err
		}
	}
	return out, there, nil
}

// leafPrefix is the byte before the canonical form of a leaf, as in RFC 6962.
const leafPrefix = 0

// eachLeaf passes the events in a span to fn, in order: what is hashed, leafPrefix and the
// canonical form.
func eachLeaf(ctx context.Context, tx Tx, s Span, digest digestsFunc, fn func(r *leafRow, m MoveCode, leaf []byte)) error {
	v := &leafValues{stored: digest == nil}
	if err := v.read(ctx, tx, s, digest); err != nil {
		return err
	}
	provenances, err := leafProvenances(ctx, tx, s)
	if err != nil {
		return err
	}
	newer := map[int]MoveCode{} // codes that only a newer program knows
	move := func(code int) (m MoveCode, known bool) {
		if m, known = moveOf(code); !known {
			m, known = newer[code]
		}
		return m, known
	}
	var b []byte
	for {
		r, err := readLeaves(ctx, tx, s, func(r *leafRow) bool {
			m, known := move(r.move)
			if !known {
				return false
			}
			sum, known := v.of(r, m)
			if known {
				b = appendDigest(r.canonical(append(b[:0], leafPrefix), m), sum, m)
				b = append(b, provenances[r.id]...)
				fn(r, m, b)
			}
			return known
		})
		if err != nil || r == nil {
			return err
		}
		s.Low = r.id
		if _, known := move(r.move); known {
			err = v.read(ctx, tx, s, leafDigests)
		} else {
			newer[r.move], err = MoveFrom(ctx, tx, r.move)
		}
		if err != nil {
			return err
		}
	}
}

// readLeaves passes the events of a span to fn. It returns the event at which fn returns false.
func readLeaves(ctx context.Context, tx Tx, s Span, fn func(r *leafRow) bool) (*leafRow, error) {
	rows, err := tx.Query(ctx, leafSQL["events for leaves"], s.Low, s.High)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	r := newLeafRow()
	for rows.Next() {
		if err := rows.Scan(r.dest...); err != nil {
			return nil, err
		}
		if !fn(r) {
			return r, nil
		}
	}
	return nil, rows.Err()
}

// leafProvenances returns the canonical form of the provenance of each event that has any.
func leafProvenances(ctx context.Context, tx Tx, s Span) (map[int64][]byte, error) {
	rows, err := tx.Query(ctx, leafSQL["provenances for leaves"], s.Low, s.High)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out map[int64][]byte
	var event, attempt int64
	var texts [11]leafText
	dest := []any{&event, &attempt}
	for i := range texts {
		dest = append(dest, &texts[i])
	}
	dest[3] = leafRef{itemPrefix, &texts[1]}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, err
		}
		if out == nil {
			out = map[int64][]byte{}
		}
		b := out[event]
		for _, t := range texts[:2] { // id, item
			b = leafField(b, t)
		}
		b = leafNumber(b, attempt)
		for _, t := range texts[2:] {
			b = leafField(b, t)
		}
		out[event] = b
	}
	return out, rows.Err()
}
