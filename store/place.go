package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

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

// The kinds of rows of places.
const ()

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
