package identity

import (
	"context"
	"embed"
	"encoding/json"

	"github.com/pawl-work/pawl/store"
)

//go:embed place.sql
var sqlFiles embed.FS

var texts = store.Texts(sqlFiles, "place.sql")

// placeOf reads a place from the text of its row.
func placeOf(text string) (p store.Place) {
	_ = json.Unmarshal([]byte(text), &p) // written by Text
	return p
}

const placeKnown = "known"

const placeAsked = "asked" // a server asks whether it is the same database

const PlaceExpected = "expected" // an address that is admitted once

const placeFound = "found" // since then the database is known to be a copy

const placeTest = "test" // the database is a copy for tests

// PlaceRow is a row of places.
type PlaceRow struct {
	Kind, Place, How string
	Position         int64 // of the feed
	Leaves           int64 // of the log
	CreatedAt        int64
}

// Places reads all rows, oldest first.
func Places(ctx context.Context, tx store.Tx) ([]PlaceRow, error) {
	return store.All(ctx, tx, texts["places"], nil, func(rows store.Rows, r *PlaceRow) error {
		return rows.Scan(&r.Kind, &r.Place, &r.How, &r.Position, &r.Leaves, &r.CreatedAt)
	})
}

// PutPlace writes a row. Of one that exists, the time and how it became known change.
func PutPlace(ctx context.Context, tx store.Tx, r PlaceRow) error {
	_, err := tx.Exec(ctx, texts["put place"], r.Kind, r.Place, store.Text(r.How), r.Position, r.Leaves, r.CreatedAt)
	return err
}

// forgetPlace removes a row.
func forgetPlace(ctx context.Context, tx store.Tx, kind, place string) error {
	_, err := tx.Exec(ctx, texts["forget place"], kind, place)
	return err
}

// forgetPlaces removes all rows.
func forgetPlaces(ctx context.Context, tx store.Tx) error {
	_, err := tx.Exec(ctx, texts["forget places"])
	return err
}

// placeQuestions returns the places that servers have asked about since a time.
func placeQuestions(ctx context.Context, tx store.Tx, since int64) ([]string, error) {
	return store.Strings(ctx, tx, texts["questions"], since)
}
