package postgres

import (
	"bytes"
	"slices"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"

	"github.com/pawl-work/pawl/store"
)

// A column of texts is encoded to the same bytes as by pgx.
func TestTextsAreWrittenAsPgxWould(t *testing.T) {
	plain, ours := pgtype.NewMap(), pgtype.NewMap()
	register(ours)
	before := []byte("what is in the buffer already")
	for _, column := range [][]string{nil, {}, {""}, {"one"}, {"", "Zürich", `a "quoted", {braced} \ one`, "NULL"}} {
		want, err := plain.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, column, before)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ours.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, column, before)
		if err != nil || !bytes.Equal(got, want) || (got == nil) != (want == nil) {
			t.Errorf("%q: %q, %v, want %q", column, got, err, want)
		}
	}
	one := "pointers go pgx's way"
	if got, err := ours.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, []*string{&one, nil}, nil); err != nil || len(got) == 0 {
		t.Errorf("%q, %v", got, err)
	}
}

// Columns of numbers and of texts that may be NULL are encoded to the same bytes as by pgx, and
// a number that does not fit is refused.
func TestColumnsAreWrittenAsPgxWould(t *testing.T) {
	plain, ours := pgtype.NewMap(), pgtype.NewMap()
	register(ours)
	for oid, most := range map[uint32]int{pgtype.Int2ArrayOID: 1<<15 - 1, pgtype.Int4ArrayOID: 1<<31 - 1, pgtype.Int8ArrayOID: 1<<63 - 1} {
		for _, column := range [][]int{nil, {}, {0}, {1, -1, most, -most - 1}} {
			want, err := plain.Encode(oid, pgtype.BinaryFormatCode, column, nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := ours.Encode(oid, pgtype.BinaryFormatCode, column, nil); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%d %v: %x, %v, want %x", oid, column, got, err, want)
			}
		}
		if oid == pgtype.Int8ArrayOID {
			continue
		}
		for _, n := range []int{most + 1, -most - 2} {
			if got, err := ours.Encode(oid, pgtype.BinaryFormatCode, []int{n}, nil); err == nil {
				t.Errorf("%d: %d is encoded as %x", oid, n, got)
			}
		}
	}
	for _, column := range [][]store.Text{nil, {}, {"one"}, {"", "Zürich", "NULL", ""}} {
		var pointers []*string
		if column != nil {
			pointers = []*string{}
		}
		for i := range column {
			pointers = append(pointers, (*string)(&column[i]))
			if column[i] == "" {
				pointers[i] = nil
			}
		}
		want, err := plain.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, pointers, nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ours.Encode(pgtype.TextArrayOID, pgtype.BinaryFormatCode, column, nil)
		if len(got) > 8 && !slices.Contains(column, "") {
			got[7] = want[7] // pgx says whether an element is NULL, this one whether it may be
		}
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%q: %x, %v, want %x", column, got, err, want)
		}
	}
}
