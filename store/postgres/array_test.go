package postgres

import (
	"bytes"
	"testing"

	"github.com/jackc/pgx/v5/pgtype"
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
