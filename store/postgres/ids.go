package postgres

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawl-work/pawl/store"
)

// ids encodes and decodes a store.ID as the 16 bytes of a uuid. pgx would use the methods
// of database/sql, with a text on the way.
type ids struct{ pgtype.UUIDCodec }

// PlanEncode implements pgtype.Codec.
func (c ids) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if _, ok := value.(store.ID); ok && format == pgtype.BinaryFormatCode {
		return c
	}
	return c.UUIDCodec.PlanEncode(m, oid, format, value)
}

// Encode implements pgtype.EncodePlan.
func (ids) Encode(value any, buf []byte) ([]byte, error) {
	b, ok := value.(store.ID).Bytes()
	if !ok {
		return nil, nil
	}
	return append(buf, b[:]...), nil
}

// PlanScan implements pgtype.Codec.
func (c ids) PlanScan(m *pgtype.Map, oid uint32, format int16, target any) pgtype.ScanPlan {
	if _, ok := target.(store.IDTarget); ok && format == pgtype.BinaryFormatCode {
		return c
	}
	return c.UUIDCodec.PlanScan(m, oid, format, target)
}

// Scan implements pgtype.ScanPlan.
func (ids) Scan(src []byte, target any) error {
	switch {
	case src == nil:
		target.(store.IDTarget).SetNull()
	case len(src) == 16:
		target.(store.IDTarget).SetBytes([16]byte(src))
	default:
		return fmt.Errorf("an id of %d bytes", len(src))
	}
	return nil
}

// idArrays encodes a column of ids in one loop, as texts does.
type idArrays struct{ *pgtype.ArrayCodec }

// PlanEncode implements pgtype.Codec.
func (c idArrays) PlanEncode(m *pgtype.Map, oid uint32, format int16, value any) pgtype.EncodePlan {
	if format == pgtype.BinaryFormatCode {
		switch value.(type) {
		case []store.TaskID:
			return idColumn[store.TaskID]{}
		case []store.ItemID:
			return idColumn[store.ItemID]{}
		}
	}
	return c.ArrayCodec.PlanEncode(m, oid, format, value)
}

type idColumn[T store.ID] struct{}

// Encode implements pgtype.EncodePlan.
func (idColumn[T]) Encode(value any, buf []byte) ([]byte, error) {
	column := value.([]T)
	buf = header(slices.Grow(buf, 20+20*len(column)), 1, pgtype.UUIDOID, len(column))
	for _, id := range column {
		b, ok := id.Bytes()
		if !ok {
			buf = binary.BigEndian.AppendUint32(buf, null)
			continue
		}
		buf = append(binary.BigEndian.AppendUint32(buf, uint32(len(b))), b[:]...)
	}
	return buf, nil
}
