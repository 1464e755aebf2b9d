package store

import (
	"context"
	"crypto/sha256"
	"database/sql/driver"
)

// Digest is the SHA-256 of the input or the result that an event stands for. The verb that
// holds the value stores it with the event. The zero value is none.
type Digest [sha256.Size]byte

// DigestOf returns the digest of a value. "" is no value.
func DigestOf(value string) Digest {
	if value == "" {
		return Digest{}
	}
	return sha256.Sum256([]byte(value))
}

// Value implements driver.Valuer.
func (d Digest) Value() (driver.Value, error) {
	if d == (Digest{}) {
		return nil, nil
	}
	return d[:], nil
}

// Digest is that of the payload of a task of many; the event of a task of one is its item's.
func (t *NewTask) Digest() Digest {
	if t.Solo || t.Payload == nil {
		return Digest{}
	}
	return DigestOf(*t.Payload)
}

// Digest is that of the item's input.
func (n *NewItem) Digest() Digest { return DigestOf(n.Input) }

// digests are those of inputs and results, by the numbers of the events that have them.
type digests map[int64]Digest

// digestsFunc returns the digests of the events of a span. nil stands for those that are
// stored with the events; the values of the others are read.
type digestsFunc func(ctx context.Context, tx Tx, s Span) (digests, error)

// leafValues has what leaves say of inputs and results.
type leafValues struct {
	stored bool // the digests that are stored with the events count
	known  bool // sums were read
	sums   digests
}

// read reads the digests of a span. Without a function it reads none.
func (v *leafValues) read(ctx context.Context, tx Tx, s Span, digest digestsFunc) (err error) {
	if digest != nil {
		v.sums, err = digest(ctx, tx, s)
		v.known = true
	}
	return err
}

// of returns the digest of an event. known is false if the values must be read first. A check
// hashes the values: the leaf of an event whose stored digest is that of another value has a
// digest of both, and so is none that was logged.
func (v *leafValues) of(r *leafRow, m MoveCode) (sum Digest, known bool) {
	var stored Digest
	has := copy(stored[:], r.digest) > 0
	if !v.stored {
		if sum = v.sums[r.id]; has && sum != (Digest{}) && sum != stored {
			sum = sha256.Sum256(append(sum[:], stored[:]...))
		}
		return sum, true
	}
	if has {
		return stored, true
	}
	if _, to, ok := replacement(string(r.texts[leafDiff])); ok && m.Event == "updated" && len(r.texts[leafItem]) == 0 {
		return to, true
	}
	stands := valueOf(m) != "" && (m.Event != "completed" || len(r.texts[leafItem]) > 0)
	return v.sums[r.id], v.known || !stands
}

// appendDigest appends the digests of the input and of the result that an event has. It has one of
// them at most.
func appendDigest(b []byte, sum Digest, m MoveCode) []byte {
	if sum == (Digest{}) {
		return append(b, make([]byte, 8)...)
	}
	text := leafText(sum[:])
	if valueOf(m) == "result" {
		return leafField(leafField(b, ""), text)
	}
	return leafField(leafField(b, text), "")
}

// leafDigests hashes the inputs and results of the events of a span.
func leafDigests(ctx context.Context, tx Tx, s Span) (digests, error) {
	out := digests{}
	var id int64
	var value, replaced leafText // JSON: never empty
	err := EachRow(ctx, tx, func(rows Rows) error {
		if err := rows.Scan(&id, &value, &replaced); err != nil {
			return err
		}
		sum, given := Digest{}, len(value) > 0
		if len(replaced) > 0 {
			sum, _, given = replacement(string(replaced))
		} else if given {
			sum = sha256.Sum256(value)
		}
		if given {
			out[id] = sum
		}
		return nil
	}, leafSQL["values for leaves"], s.Low, s.High)
	return out, err
}
