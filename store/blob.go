package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"

	"github.com/pawl-work/pawl"
)

var blobSQL = Texts(sqlFiles, "blob.sql")

// BlobHead describes a stored blob without its body.
type BlobHead struct {
	Address []byte
	Depth   int   // how many blobs are under it
	Chain   int64 // bytes that it and those under it store
	Size    int64 // bytes of its text
}

// Blob is a text as it is stored: whole, or as a delta against another blob, its base. Its
// address is the SHA-256 of the base's address and the body.
type Blob struct {
	BlobHead
	Base []byte // nil = the body is the text
	Body []byte
	text []byte
}

// NewBlob returns a blob that stores a text whole.
func NewBlob(text []byte) Blob {
	b := Blob{Body: text, text: text}
	b.Size, b.Chain = int64(len(text)), int64(len(text))
	b.Address = addressOf(nil, text)
	return b
}

// chainFactor bounds what a chain of blobs stores, in sizes of the text.
const chainFactor = 8

// NewBlobOn returns a blob that stores a text as a delta against another one. If that does
// not pay, or if the chain of blobs would be too long, it stores the text whole.
func NewBlobOn(base BlobHead, baseText, text []byte) Blob {
	whole := NewBlob(text)
	if bytes.Equal(baseText, text) {
		whole.BlobHead = base
		whole.Body = nil
		return whole
	}
	b := Blob{Base: base.Address, Body: makeDelta(baseText, text), text: text}
	b.Size, b.Depth, b.Chain = int64(len(text)), base.Depth+1, base.Chain+int64(len(b.Body))
	if len(b.Body) > len(text)/2 || b.Depth > pawl.MaxBlobDepth || b.Chain > chainFactor*b.Size {
		return whole
	}
	b.Address = addressOf(b.Base, b.Body)
	return b
}

func addressOf(base, body []byte) []byte {
	h := sha256.New()
	h.Write(base)
	h.Write(body)
	return h.Sum(nil)
}

// BlobName returns the name of a blob, as errors and doctor write it.
func BlobName(address []byte) string { return pawl.BlobAddress(address) }

// ReadBlob reads the text of a blob. It checks each row that it needs against its address.
func ReadBlob(ctx context.Context, tx Tx, namespace string, address []byte) ([]byte, error) {
	rows, err := tx.Query(ctx, blobSQL["chain"], namespace, address)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var text []byte
	var spans []span
	next := address
	for first := true; rows.Next(); first = false {
		var b Blob
		if err := rows.Scan(&b.Address, &b.Base, &b.Size, &b.Body); err != nil {
			return nil, err
		}
		if !bytes.Equal(b.Address, next) || !b.intact() {
			return nil, BadBlob(next, "was changed")
		}
		if first {
			if !b.sized() { // the size is not under the address
				return nil, BadBlob(next, "has a size that is not its text's")
			}
			if text = make([]byte, b.Size); b.Size > 0 {
				spans = []span{{0, 0, int(b.Size)}}
			}
		}
		if spans, err = b.read(text, spans); err != nil {
			return nil, BadBlob(next, "was changed")
		}
		if next = b.Base; len(spans) == 0 {
			return text, nil
		}
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	return nil, BadBlob(next, "is missing")
}

func (b *Blob) intact() bool { return bytes.Equal(b.Address, addressOf(b.Base, b.Body)) }

// sized reports whether the size of a blob is that of its text, and no more than a snapshot
// may have.
func (b *Blob) sized() bool {
	n := int64(len(b.Body))
	if b.Base != nil {
		n = deltaSize(b.Body)
	}
	return b.Size == n && n <= pawl.MaxPayloadBytes
}

// read reads what the blob itself has of a text, and returns what its base has.
func (b *Blob) read(text []byte, spans []span) ([]span, error) {
	if b.Base != nil {
		return readDelta(text, b.Body, spans)
	}
	for _, s := range spans {
		if s.from+s.n > len(b.Body) {
			return nil, errDelta
		}
		copy(text[s.to:s.to+s.n], b.Body[s.from:])
	}
	return nil, nil
}

// BadBlob is the error of a blob that cannot be read: what says why.
func BadBlob(address []byte, what string) error {
	return &pawl.Error{Code: pawl.CodeInternal, Op: "blob", Message: fmt.Sprintf("blob %s %s", BlobName(address), what)}
}

// KeepBlob stores a blob, in the transaction that refers to it, and returns its address. If
// its base has been removed, it stores the text whole. If another transaction is about to store it, it returns
// the text, which the checkpoint is to have itself: that transaction may be open for long.
func KeepBlob(ctx context.Context, tx Tx, namespace string, now int64, b Blob) (Text, []byte, error) {
	if b.Base != nil {
		there, err := useBlob(ctx, tx, namespace, b.Base, now)
		if err != nil {
			return "", nil, err
		}
		if !there {
			b = NewBlob(b.text)
		}
	}
	if b.Body == nil {
		there, err := useBlob(ctx, tx, namespace, b.Address, now)
		if err != nil || there {
			return "", b.Address, err
		}
		b = NewBlob(b.text)
	}
	n, err := tx.Exec(ctx, blobSQL["add at once"], namespace, b.Address, b.Base, b.Depth, b.Chain, b.Size, b.Body, now)
	there := n == 1
	if err == nil && !there {
		there, err = useBlob(ctx, tx, namespace, b.Address, now)
	}
	if err == nil && !there {
		return Text(b.text), nil, nil
	}
	return "", b.Address, err
}

// putBlob inserts a blob, or marks it as used if it is there.
func putBlob(ctx context.Context, tx Tx, namespace string, now int64, b Blob) error {
	for range 10 { // another transaction may be inserting or removing the row
		for _, name := range []string{"add at once", "add"} {
			n, err := tx.Exec(ctx, blobSQL[name], namespace, b.Address, b.Base, b.Depth, b.Chain, b.Size, b.Body, now)
			if err != nil || n == 1 {
				return err
			}
			if there, err := useBlob(ctx, tx, namespace, b.Address, now); err != nil || there {
				return err
			}
		}
	}
	return &pawl.Error{Code: pawl.CodeUnavailable, Op: "blob", Message: "blob " + BlobName(b.Address) + " is being removed; try again"}
}

// useBlob marks a blob as used, so that retention does not remove it before this
// transaction has committed. Retention looks at blobs that were not used for
// pawl.DefaultRetainBlobs, so one that was used in the last half of that needs no write. One that
// another transaction marks is locked in a way that any number may, and that retention passes over.
func useBlob(ctx context.Context, tx Tx, namespace string, address []byte, now int64) (there bool, err error) {
	var used int64
	if there, err = Row(ctx, tx, []any{&used}, blobSQL["last use"], namespace, address); err != nil || !there {
		return false, err
	}
	if used > now-pawl.DefaultRetainBlobs.Microseconds()/2 {
		return true, nil
	}
	if n, err := tx.Exec(ctx, blobSQL["use"], namespace, address, now); err != nil || n == 1 {
		return true, err
	}
	var one int
	return Row(ctx, tx, []any{&one}, blobSQL["keep"], namespace, address)
}

// BlobPlace is a place in the order of all blobs.
type BlobPlace struct {
	Namespace string
	Address   []byte
}

// UnusedBlobs are blobs of a kind that nothing refers to.
type UnusedBlobs struct {
	List   func(ctx context.Context, tx Tx, by int64, after BlobPlace, limit int) (idle []BlobPlace, next BlobPlace, err error)
	Remove func(ctx context.Context, tx Tx, by int64, idle []BlobPlace) (removed int64, err error)
}

// IdleBlobs lists blobs that nothing refers to and that were not used since a time. It looks at
// up to limit blobs after a place, and returns the place where it stopped: the zero place at
// the end. It writes nothing.
func IdleBlobs(ctx context.Context, tx Tx, by int64, after BlobPlace, limit int) (idle []BlobPlace, next BlobPlace, err error) {
	return after.Idle(ctx, tx, blobSQL["page to remove"], limit, by)
}

// RemoveBlobs removes those of the given blobs that nothing refers to and that were not used
// since a time. When it removes a blob it also looks at the one under it.
func RemoveBlobs(ctx context.Context, tx Tx, by int64, idle []BlobPlace) (removed int64, err error) {
	for _, b := range idle {
		for address := b.Address; address != nil; removed++ {
			var one int
			var base []byte
			found, err := Row(ctx, tx, []any{&one}, blobSQL["lock idle"], b.Namespace, address)
			if err == nil && found {
				found, err = Row(ctx, tx, []any{&base}, blobSQL["remove"], b.Namespace, address, by)
			}
			if err != nil {
				return removed, err
			}
			if address = base; !found {
				break
			}
		}
	}
	return removed, nil
}

// Idle is IdleBlobs by a query.
func (p BlobPlace) Idle(ctx context.Context, tx Tx, query string, limit int, by int64) (idle []BlobPlace, next BlobPlace, err error) {
	rows, err := tx.Query(ctx, query, p.Namespace, p.bytes(), limit, by)
	if err != nil {
		return nil, next, err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var b BlobPlace
		var remove int
		if err := rows.Scan(&b.Namespace, &b.Address, &remove); err != nil {
			return nil, next, err
		}
		if next = b; remove == 1 {
			idle = append(idle, b)
		}
	}
	if n < limit {
		next = BlobPlace{}
	}
	return idle, next, rows.Err()
}

// bytes returns the address, as a value that is not NULL.
func (p BlobPlace) bytes() []byte {
	if p.Address == nil {
		return []byte{}
	}
	return p.Address
}
