package store

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/pawl-work/pawl"
)

var feedSQL = Texts(sqlFiles, "feed.sql")

// Commits are the functions that assign positions after commit. A database has them if its
// event numbers are not in the order of commit.
type Commits struct {
	// Drawn returns the highest number that any transaction has drawn for an event, committed
	// or not. It also bounds how long a process that has stopped running may keep this
	// transaction open.
	Drawn func(ctx context.Context, tx Tx) (int64, error)
	// State reads the state of the feed, what Server returns, and what Drawn returned a moment later, at once.
	State func(ctx context.Context, tx Tx) (FeedState, Server, int64, error)
	// Among lists, in order, the existing events with numbers in any of the spans.
	Among func(ctx context.Context, tx Tx, spans []Span) ([]int64, error)
	// Horizon returns two numbers of transactions: all below oldest have ended, and none from next
	// on has begun to write.
	Horizon func(ctx context.Context, tx Tx) (oldest, next int64, err error)
	// Running returns all other open transactions of this database.
	Running func(ctx context.Context, tx Tx) (Running, error)
	// Server identifies the server that answers and its present history.
	Server func(ctx context.Context, tx Tx) (Server, error)
	// Reset closes the connections, because one of them leads to a server that is not the
	// newest.
	Reset func()
}

// Running is the set of open transactions. A transaction that is prepared while they are
// read is in one of the maps or in both.
type Running struct {
	Open     map[string]string // by name, with their transaction numbers; "" = no number yet, or not known
	Prepared map[string]bool   // by transaction number; they belong to no process
}

// Server identifies a database server and its history. After a failover the timeline is
// another one; after a restore from a dump the system is another one. The zero value means
// unknown.
type Server struct {
	System   string `json:"system,omitempty"`
	Timeline int64  `json:"timeline,omitempty"`
	Standby  bool   `json:"-"` // it follows a primary and takes no writes
}

// EpochStart is where an epoch begins: the positions of the epoch are above Position.
type EpochStart struct {
	Epoch    int64 `json:"epoch"`
	Position int64 `json:"position"`
}

// Span is the range of numbers from Low to High, both included.
type Span struct{ Low, High int64 }

// FeedState says which positions have been assigned.
type FeedState struct {
	Position int64  // the newest position
	Top      int64  // each number up to Top has a position, is in Gaps, or never gets one
	Gaps     []Span // numbers up to Top without a visible event yet, in order
	Loose    int64  // the first of the newest pages, which are not packed yet; 0 = none
	Pages    int    // the number of pages that are not packed yet
	IDs      int    // the number of events in them
	Runs     int    // the number of rows that hold the leaves of the log's last tile
	Epoch    int64  // rises when the database went back in time
	Starts   []EpochStart
	Server   Server    // the server that assigned the newest positions
	Counting *Counting // what the totals count; nil = nothing
	MovedAt  int64     // when the state was written
	Root     string    // of the log's first Position leaves; "" = not known
	Edge     *Edge     // of the log, which Position continues; nil = Root is not kept
}

// epochsKept bounds the epoch starts that are kept. Of the older ones only the lowest
// position is kept.
const epochsKept = 100

// Raise begins an epoch after a position, up to which both histories are the same. The events are
// counted anew.
func (s *FeedState) Raise(epoch, after int64) {
	s.Epoch, s.Counting = epoch, nil
	s.Starts = append(slices.Clone(s.Starts), EpochStart{epoch, after})
	if len(s.Starts) > epochsKept {
		s.Starts[1].Position = min(s.Starts[0].Position, s.Starts[1].Position)
		s.Starts = s.Starts[1:]
	}
}

// Restart returns the position at which a reader of another epoch continues. Everything up
// to it is both in the present history and in the history of the reader's epoch.
func (s FeedState) Restart(at pawl.FeedPosition) pawl.FeedPosition {
	out := pawl.FeedPosition{Epoch: s.Epoch, Position: at.Position}
	if at.Epoch > s.Epoch { // this database does not know the history of that epoch
		out.Position = 0
	}
	for _, e := range s.Starts {
		if e.Epoch > at.Epoch {
			out.Position = min(out.Position, e.Position)
		}
	}
	return out
}

// EpochAt returns the epoch in which a position was assigned.
func (s FeedState) EpochAt(position int64) (epoch int64) {
	for _, e := range s.Starts {
		if e.Position < position {
			epoch = e.Epoch
		}
	}
	return epoch
}

type feedDetail struct {
	Top   int64  `json:"top"`
	Gaps  string `json:"gaps,omitempty"`
	Loose int64  `json:"loose,omitempty"`
	Pages int    `json:"pages,omitempty"`
	IDs   int    `json:"ids,omitempty"`
	Runs  int    `json:"runs,omitempty"`

	Epoch  int64        `json:"epoch,omitempty"`
	Starts []EpochStart `json:"epochs,omitempty"`
	Server *Server      `json:"server,omitempty"`
	Root   string       `json:"root,omitempty"`
	Rooted int64        `json:"rooted,omitempty"` // of how many leaves Root is: older programs move the feed without it

	Counting *Counting `json:"counting,omitempty"`
}

// ReadFeed reads which positions have been assigned.
func ReadFeed(ctx context.Context, tx Tx) (FeedState, error) {
	s, _, err := readFeed(ctx, tx, "feed at")
	return s, err
}

// FeedEpoch reads the epoch of the feed.
func FeedEpoch(ctx context.Context, tx Tx) (int64, error) {
	s, err := ReadFeed(ctx, tx)
	return s.Epoch, err
}

// LockFeed is ReadFeed that also keeps other transactions from assigning positions until
// this one ends.
func LockFeed(ctx context.Context, tx Tx) (FeedState, error) {
	s, found, err := readFeed(ctx, tx, "hold feed")
	if err != nil || found {
		return s, err
	}
	if _, err := tx.Exec(ctx, sweepSQL["start cursor"], "feed"); err != nil {
		return s, err
	}
	s, _, err = readFeed(ctx, tx, "hold feed")
	return s, err
}

func readFeed(ctx context.Context, tx Tx, query string) (FeedState, bool, error) {
	var s FeedState
	var text string
	found, err := Row(ctx, tx, []any{&s.Position, &text, &s.MovedAt}, feedSQL[query])
	if err == nil && found {
		err = s.Read(text)
	}
	return s, found, err
}

// Read fills in what the column detail says.
func (s *FeedState) Read(text string) error {
	var d feedDetail
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return err
	}
	s.Top, s.Loose, s.Pages, s.IDs, s.Runs = d.Top, d.Loose, d.Pages, d.IDs, d.Runs
	s.Epoch, s.Starts, s.Counting = d.Epoch, d.Starts, d.Counting
	if d.Server != nil {
		s.Server = *d.Server
	}
	if d.Rooted == s.Position {
		s.Root = d.Root
	}
	packed, err := base64.RawStdEncoding.DecodeString(d.Gaps)
	if err != nil {
		return err
	}
	ends := Unpack(packed)
	for i := 0; i+1 < len(ends); i += 2 {
		s.Gaps = append(s.Gaps, Span{ends[i], ends[i+1]})
	}
	return nil
}

// moveFeed writes which positions have been assigned.
func moveFeed(ctx context.Context, tx Tx, now int64, s FeedState) error {
	var ends []int64
	for _, g := range s.Gaps {
		ends = append(ends, g.Low, g.High)
	}
	d := feedDetail{Top: s.Top, Gaps: base64.RawStdEncoding.EncodeToString(Pack(ends)), Loose: s.Loose, Pages: s.Pages, IDs: s.IDs,
		Runs: s.Runs, Epoch: s.Epoch, Starts: s.Starts, Counting: s.Counting}
	if d.Root = s.Root; s.Root != "" {
		d.Rooted = s.Position
	}
	if s.Server.System != "" {
		d.Server = &s.Server
	}
	text, err := json.Marshal(d)
	if err != nil {
		return err
	}
	_, err = tx.Exec(ctx, feedSQL["move feed"], s.Position, string(text), now)
	return err
}
