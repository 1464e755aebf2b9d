package postgres

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawl-work/pawl/store"
)

// register makes a connection encode and decode the values of Pawl's statements without a
// detour: columns of texts, ids, and columns of ids.
func register(m *pgtype.Map) {
	one := &pgtype.Type{Name: "text", OID: pgtype.TextOID, Codec: text{}}
	m.RegisterType(one)
	m.RegisterType(&pgtype.Type{Name: "_text", OID: pgtype.TextArrayOID, Codec: texts{&pgtype.ArrayCodec{ElementType: one}}})
	for element, oid := range map[uint32]uint32{
		pgtype.Int2OID: pgtype.Int2ArrayOID, pgtype.Int4OID: pgtype.Int4ArrayOID, pgtype.Int8OID: pgtype.Int8ArrayOID,
	} {
		one, _ := m.TypeForOID(element)
		m.RegisterType(&pgtype.Type{Name: "_" + one.Name, OID: oid, Codec: ints{&pgtype.ArrayCodec{ElementType: one}}})
	}
	bytea, _ := m.TypeForOID(pgtype.ByteaOID)
	m.RegisterType(&pgtype.Type{Name: "_bytea", OID: pgtype.ByteaArrayOID, Codec: digests{&pgtype.ArrayCodec{ElementType: bytea}}})
	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: ids{}}
	m.RegisterType(id)
	m.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: idArrays{&pgtype.ArrayCodec{ElementType: id}}})
}

// null is the length of an element that is NULL.
const null = 1<<32 - 1

// text decodes a store.Text. If the variable has the same text already, as that of the row
// before often has, it keeps it.
type text struct{ pgtype.TextCodec }

// PlanScan implements pgtype.Codec.
func (c text) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(*store.Text); ok {
		return keptText{}
	}
	return c.TextCodec.PlanScan(m, oid, format, target)
}

type keptText struct{}

// Scan implements pgtype.ScanPlan.
func (keptText) Scan(src []byte, target any) error {
	if t := target.(*store.Text); string(*t) != string(src) {
		*t = store.Text(src)
	}
	return nil
}

// header writes the beginning of a column: the number of dimensions, whether an element may
// be NULL, the type of the elements, and the dimension's length and first index. Each
// element follows, with its length before it.
func header(buf []byte, nulls, element, length int) []byte {
	for _, n := range []int{1, nulls, element, length, 1} {
		buf = binary.BigEndian.AppendUint32(buf, uint32(n))
	}
	return buf
}

// texts encodes a column of texts in one loop. pgx encodes it element by element, and for
// each uses an interface and reflection.
type texts struct{ *pgtype.ArrayCodec }

// PlanEncode implements pgtype.Codec.
func (t texts) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case []string:
			return textColumn[string]{}
		case []store.Text:
			return textColumn[store.Text]{nullable: 1}
		}
	}
	return t.ArrayCodec.PlanEncode(m, oid, format, value)
}

// textColumn encodes a column of texts. In one that is nullable, "" is NULL.
type textColumn[T ~string] struct{ nullable int }

// Encode implements pgtype.EncodePlan.
func (t textColumn[T]) Encode(value any, buf []byte) ([]byte, error) {
	column := value.([]T)
	size := 20 + 4*len(column)
	for _, s := range column {
		size += len(s)
	}
	buf = header(slices.Grow(buf, size), t.nullable, pgtype.TextOID, len(column))
	for _, s := range column {
		n := uint32(len(s))
		if s == "" && t.nullable == 1 {
			n = null
		}
		buf = append(binary.BigEndian.AppendUint32(buf, n), s...)
	}
	return buf, nil
}

// ints encodes a column of whole numbers in one loop, as texts does.
type ints struct{ *pgtype.ArrayCodec }

// PlanEncode implements pgtype.Codec.
func (c ints) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]int); ok && format == pgtype.BinaryFormatCode {
		return numbers(c.ElementType.OID)
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

// numbers encodes a column of numbers of a type, by its OID.
type numbers uint32

// Encode implements pgtype.EncodePlan.
func (of numbers) Encode(value any, buf []byte) ([]byte, error) {
	column := value.([]int)
	size := 4
	switch of {
	case pgtype.Int2OID:
		size = 2
	case pgtype.Int8OID:
		size = 8
	}
	buf = header(slices.Grow(buf, 20+(4+size)*len(column)), 0, int(of), len(column))
	for _, n := range column {
		if high := n >> (8*size - 1); high != 0 && high != -1 {
			return nil, fmt.Errorf("%d does not fit in %d bytes", n, size)
		}
		buf = binary.BigEndian.AppendUint32(buf, uint32(size))
		switch size {
		case 2:
			buf = binary.BigEndian.AppendUint16(buf, uint16(n))
		case 4:
			buf = binary.BigEndian.AppendUint32(buf, uint32(n))
		default:
			buf = binary.BigEndian.AppendUint64(buf, uint64(n))
		}
	}
	return buf, nil
}

// digests encodes a column of digests in one loop, as texts does.
type digests struct{ *pgtype.ArrayCodec }

// PlanEncode implements pgtype.Codec.
func (d digests) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]store.Digest); ok && format == pgtype.BinaryFormatCode {
		return digestColumn{}
	}
	return d.ArrayCodec.PlanEncode(m, oid, format, value)
}

// digestColumn encodes a column of digests. The zero value is NULL.
type digestColumn struct{}

// Encode implements pgtype.EncodePlan.
func (digestColumn) Encode(value any, buf []byte) ([]byte, error) {
	column := value.([]store.Digest)
	buf = header(slices.Grow(buf, 20+(4+len(store.Digest{}))*len(column)), 1, pgtype.ByteaOID, len(column))
	for i := range column {
		if column[i] == (store.Digest{}) {
			buf = binary.BigEndian.AppendUint32(buf, null)
			continue
		}
		buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(column[i]))), column[i][:]...)
	}
	return buf, nil
}
