package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

var placeSQL = Texts(sqlFiles, "place.sql")

// Place is where a database is. A copy of the database is at another place. On PostgreSQL it is
// the server's identifier, where that can be read, the numbers of the database and of the
// schema, and the hosts and the database of the URL. On SQLite it is the inode of the file, and
// the text of the file beside it.
type Place struct {
	Address  string `json:"address,omitempty"` // the hosts of the URL as one, and its database
	System   string `json:"system,omitempty"`
	Database int64  `json:"database,omitempty"`
	Schema   int64  `json:"schema,omitempty"`
	Inode    uint64 `json:"inode,omitempty"`
	ID       string `json:"id,omitempty"` // of FILE.place; "" = there is none
	Named    string `json:"-"`            // what the URL names: the address, or the path of the file
}

// Known reports whether p is the place that a row of places describes. A server that does not
// tell its identifier is known by the rest, and a system without inodes by the file's text.
func (p Place) Known(text string) bool {
	var k Place
	if json.Unmarshal([]byte(text), &k) != nil {
		return false
	}
	if p.Address == "" {
		return p.ID != "" && k.ID == p.ID && k.Inode == p.Inode
	}
	same := p.System == "" || k.System == "" || p.System == k.System
	return same && k.Address == p.Address && k.Database == p.Database && k.Schema == p.Schema
}

// Text is what a row of places has.
func (p Place) Text() string {
	b, _ := json.Marshal(p) // texts and numbers
	return string(b)
}

// String is the place in words.
func (p Place) String() string {
	if p.Address == "" {
		return strings.TrimSuffix(fmt.Sprintf("inode %d, id %s", p.Inode, p.ID), ", id ")
	}
	system := p.System
	if system == "" {
		system = "unknown"
	}
	return fmt.Sprintf("%s (system %s, database %d, schema %d)", p.Address, system, p.Database, p.Schema)
}

// PlaceOf reads a place from the text of its row.
func PlaceOf(text string) (p Place) {
	_ = json.Unmarshal([]byte(text), &p) // written by Text
	return p
}

// The kinds of rows of places.
const (
	PlaceKnown    = "known"
	PlaceAsked    = "asked"    // a server asks whether it is the same database
	PlaceExpected = "expected" // an address that is admitted once
	PlaceFound    = "found"    // since then the database is known to be a copy
	PlaceTest     = "test"     // the database is a copy for tests
)

// PlaceRow is a row of places.
type PlaceRow struct {
	Kind, Place, How string
	Position         int64 // of the feed
	Leaves           int64 // of the log
	CreatedAt        int64
}

// Places reads all rows, oldest first.
func Places(ctx context.Context, tx Tx) ([]PlaceRow, error) {
	rows, err := tx.Query(ctx, placeSQL["places"])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []PlaceRow
	for rows.Next() {
		var r PlaceRow
		if err := rows.Scan(&r.Kind, &r.Place, &r.How, &r.Position, &r.Leaves, &r.CreatedAt); err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, rows.Err()
}

// PutPlace writes a row. Of one that exists, the time and how it became known change.
func PutPlace(ctx context.Context, tx Tx, r PlaceRow) error {
	_, err := tx.Exec(ctx, placeSQL["put place"], r.Kind, r.Place, Text(r.How), r.Position, r.Leaves, r.CreatedAt)
	return err
}

// ForgetPlace removes a row.
func ForgetPlace(ctx context.Context, tx Tx, kind, place string) error {
	_, err := tx.Exec(ctx, placeSQL["forget place"], kind, place)
	return err
}

// ForgetPlaces removes all rows.
func ForgetPlaces(ctx context.Context, tx Tx) error {
	_, err := tx.Exec(ctx, placeSQL["forget places"])
	return err
}

// PlaceQuestions returns the places that servers have asked about since a time.
func PlaceQuestions(ctx context.Context, tx Tx, since int64) ([]string, error) {
	return Strings(ctx, tx, placeSQL["questions"], since)
}

// LeaveServer forgets which server has given the positions of events: the next one goes on, without a new epoch.
func LeaveServer(ctx context.Context, tx Tx) error {
	s, err := LockFeed(ctx, tx)
	if err != nil || s.Server == (Server{}) {
		return err
	}
	s.Server = Server{}
	return moveFeed(ctx, tx, s.MovedAt, s)
}

// RaiseEpoch begins a new epoch of the feed after a position, up to which the present history
// and that of the original are the same. The feed is locked then.
func RaiseEpoch(ctx context.Context, tx Tx, after int64) (int64, error) {
	s, err := LockFeed(ctx, tx)
	if err != nil {
		return 0, err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return 0, err
	}
	counting := s.Counting // no event is lost
	s.Raise(s.Epoch+1, after)
	s.Counting = counting
	return s.Epoch, moveFeed(ctx, tx, now, s)
}
