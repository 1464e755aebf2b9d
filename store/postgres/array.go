package postgres

import (
	"encoding/binary"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"
)

// texts encodes a column of texts in one loop. pgx encodes it element by element, and for
// each uses an interface and reflection.
type texts struct{ *pgtype.ArrayCodec }

// registerTexts makes a connection encode its text[] parameters with texts.
func registerTexts(m *pgtype.Map) {
	element, _ := m.TypeForOID(pgtype.TextOID)
	m.RegisterType(&pgtype.Type{Name: "_text", OID: pgtype.TextArrayOID, Codec: texts{&pgtype.ArrayCodec{ElementType: element}}})
}

// PlanEncode implements pgtype.Codec.
func (t texts) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.([]string); ok && format == pgtype.BinaryFormatCode {
		return t
	}
	return t.ArrayCodec.PlanEncode(m, oid, format, value)
}

// Encode implements pgtype.EncodePlan. It writes the number of dimensions, whether an
// element is NULL, the type of the elements, and the dimension's length and first index.
// Each element follows, with its length before it.
func (texts) Encode(value any, buf []byte) ([]byte, error) {
	column := value.([]string)
	size := 20 + 4*len(column)
	for _, s := range column {
		size += len(s)
	}
	buf = slices.Grow(buf, size)
	put := func(n int) { buf = binary.BigEndian.AppendUint32(buf, uint32(n)) }
	for _, n := range []int{1, 0, pgtype.TextOID, len(column), 1} {
		put(n)
	}
	for _, s := range column {
		put(len(s))
		buf = append(buf, s...)
	}
	return buf, nil
}
