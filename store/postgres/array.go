package postgres

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// register makes a connection encode and decode the values of Pawl's statements without a
// detour: columns of texts, ids, and columns of ids.
func register(m *pgtype.Map) {
	text, _ := m.TypeForOID(pgtype.TextOID)
	m.RegisterType(&pgtype.Type{Name: "_text", OID: pgtype.TextArrayOID, Codec: texts{&pgtype.ArrayCodec{ElementType: text}}})
	id := &pgtype.Type{Name: "uuid", OID: pgtype.UUIDOID, Codec: ids{}}
	m.RegisterType(id)
	m.RegisterType(&pgtype.Type{Name: "_uuid", OID: pgtype.UUIDArrayOID, Codec: idArrays{&pgtype.ArrayCodec{ElementType: id}}})
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
	if _, ok := value.([]string); ok && format == pgtype.BinaryFormatCode {
		return t
	}
	return t.ArrayCodec.PlanEncode(m, oid, format, value)
}

// Encode implements pgtype.EncodePlan.
func (texts) Encode(value any, buf []byte) ([]byte, error) {
	column := value.([]string)
	size := 20 + 4*len(column)
	for _, s := range column {
		size += len(s)
	}
	buf = header(slices.Grow(buf, size), 0, pgtype.TextOID, len(column))
	for _, s := range column {
		buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(s))), s...)
	}
	return buf, nil
}
