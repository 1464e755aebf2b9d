package store

import (
	"context"
	"encoding/base64"
	"encoding/binary"
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
	// Among lists, in order, the existing events with numbers in any of the spans.
	Among func(ctx context.Context, tx Tx, spans []Span) ([]int64, error)
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
	Server   Server // the server that assigned the newest positions
}

// epochsKept bounds the epoch starts that are kept. Of the older ones only the lowest
// position is kept.
const epochsKept = 100

// Raise begins an epoch after the newest position.
func (s *FeedState) Raise(epoch int64) {
	s.Epoch = epoch
	s.Starts = append(slices.Clone(s.Starts), EpochStart{epoch, s.Position})
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
}

// ReadFeed reads which positions have been assigned.
func ReadFeed(ctx context.Context, tx Tx) (FeedState, error) {
	s, _, err := readFeed(ctx, tx, "feed at")
	return s, err
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
	found, err := Row(ctx, tx, []any{&s.Position, &text}, feedSQL[query])
	if err != nil || !found {
		return s, found, err
	}
	var d feedDetail
	if err := json.Unmarshal([]byte(text), &d); err != nil {
		return s, true, err
	}
	s.Top, s.Loose, s.Pages, s.IDs, s.Runs = d.Top, d.Loose, d.Pages, d.IDs, d.Runs
	s.Epoch, s.Starts = d.Epoch, d.Starts
	if d.Server != nil {
		s.Server = *d.Server
	}
	packed, err := base64.RawStdEncoding.DecodeString(d.Gaps)
	if err != nil {
		return s, true, err
	}
	ends := Unpack(packed)
	for i := 0; i+1 < len(ends); i += 2 {
		s.Gaps = append(s.Gaps, Span{ends[i], ends[i+1]})
	}
	return s, true, nil
}

// moveFeed writes which positions have been assigned.
func moveFeed(ctx context.Context, tx Tx, now int64, s FeedState) error {
	var ends []int64
	for _, g := range s.Gaps {
		ends = append(ends, g.Low, g.High)
	}
	d := feedDetail{Top: s.Top, Gaps: base64.RawStdEncoding.EncodeToString(Pack(ends)), Loose: s.Loose, Pages: s.Pages, IDs: s.IDs,
		Runs: s.Runs, Epoch: s.Epoch, Starts: s.Starts}
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

// Numbers lists up to limit event numbers that are above one number and at most another,
// in order.
func Numbers(ctx context.Context, tx Tx, above, upTo int64, limit int) ([]int64, error) {
	return Ints(ctx, tx, feedSQL["numbers"], above, upTo, limit)
}

// NewestNumber returns the number of the newest event, or 0 when there is none.
func NewestNumber(ctx context.Context, tx Tx) (int64, error) {
	var id int64
	_, err := Row(ctx, tx, []any{&id}, feedSQL["newest number"])
	return id, err
}

// FeedPage has the numbers of the events from position First on.
type FeedPage struct {
	First int64
	IDs   []int64
}

// Small pages are packed into one when there are LoosePages of them or looseIDs events in
// them: the page of a single event is one row.
const (
	LoosePages = 64
	looseIDs   = 2048
)

// Position assigns positions after the newest one to events, in the given order, adds their
// leaves to the log and writes the state. Events that do not exist any more get none. The
// feed is locked. Without events it only writes the state.
func Position(ctx context.Context, tx Tx, s *FeedState, ids []int64) error {
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	ids, leaves, err := hashed(ctx, tx, ids)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		first := s.Position + 1
		if err := putPage(ctx, tx, now, FeedPage{First: first, IDs: ids}); err != nil {
			return err
		}
		if s.Runs, err = appendLeaves(ctx, tx, s.Position, s.Runs, leaves); err != nil {
			return err
		}
		if s.Loose == 0 {
			s.Loose = first
		}
		s.Position, s.Pages, s.IDs = s.Position+int64(len(ids)), s.Pages+1, s.IDs+len(ids)
		if s.Pages >= LoosePages || s.IDs >= looseIDs {
			if s.Pages > 1 {
				if err := packPages(ctx, tx, now, s.Loose, first); err != nil {
					return err
				}
			}
			s.Loose, s.Pages, s.IDs = 0, 0, 0
		}
	}
	return moveFeed(ctx, tx, now, *s)
}

func putPage(ctx context.Context, tx Tx, now int64, p FeedPage) error {
	low, high := bounds(p.IDs)
	_, err := tx.Exec(ctx, feedSQL["put page"], p.First, Pack(p.IDs), len(p.IDs), low, high, now)
	return err
}

// bounds returns the lowest and the highest number of an event; 0 without any.
func bounds(ids []int64) (low, high int64) {
	for _, id := range ids {
		if id > 0 && (low == 0 || id < low) {
			low = id
		}
		high = max(high, id)
	}
	return low, high
}

// packPages merges the pages from first to last into one.
func packPages(ctx context.Context, tx Tx, now, first, last int64) error {
	pages, err := FeedPages(ctx, tx, first, int(last-first)+1, int(last-first)+1)
	if err != nil {
		return err
	}
	whole := FeedPage{First: first}
	for _, p := range pages {
		whole.IDs = append(whole.IDs, p.IDs...)
	}
	if _, err := tx.Exec(ctx, feedSQL["remove pages"], first, last); err != nil {
		return err
	}
	return putPage(ctx, tx, now, whole)
}

// FeedPages reads pages, starting with the page that contains position, or the next one if
// that page is gone. It reads as many pages as hold the given number of events, and at
// most most pages. Numbers before position are cut off.
func FeedPages(ctx context.Context, tx Tx, position int64, events, most int) ([]FeedPage, error) {
	rows, err := tx.Query(ctx, feedSQL["pages"], position, most)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []FeedPage
	for events > 0 && rows.Next() {
		p, err := scanPage(rows)
		if err != nil {
			return nil, err
		}
		if cut := position - p.First; cut >= int64(len(p.IDs)) {
			continue
		} else if cut > 0 {
			p.First, p.IDs = position, p.IDs[cut:]
		}
		events -= len(p.IDs)
		out = append(out, p)
	}
	return out, rows.Err()
}

func scanPage(rows Rows) (FeedPage, error) {
	var p FeedPage
	var packed []byte
	var count int
	err := rows.Scan(&p.First, &packed, &count)
	p.IDs = Unpack(packed)
	return p, err
}

// PruneFeed reads up to limit packed pages after page behind that were made before a time.
// When no event has a number between a page's lowest and highest, only the log keeps the
// page. last is the last page that was read; 0 means that there are no more.
func PruneFeed(ctx context.Context, tx Tx, behind, before int64, limit int) (last int64, err error) {
	s, err := LockFeed(ctx, tx)
	if err != nil {
		return behind, err
	}
	end := s.Loose
	if end == 0 {
		end = s.Position + 1
	}
	rows, err := tx.Query(ctx, feedSQL["old pages"], behind, end, before, limit)
	if err != nil {
		return behind, err
	}
	defer rows.Close()
	var pages []FeedPage
	for rows.Next() {
		p, err := scanPage(rows)
		if err != nil {
			return behind, err
		}
		pages = append(pages, p)
	}
	if err := rows.Err(); err != nil {
		return behind, err
	}
	rows.Close()
	for _, p := range pages {
		var one int
		low, high := bounds(p.IDs)
		used, err := Row(ctx, tx, []any{&one}, feedSQL["any number"], low, high)
		if err != nil {
			return behind, err
		}
		if !used {
			if _, err := tx.Exec(ctx, treeSQL["keep page"], p.First); err != nil {
				return behind, err
			}
			if _, err := tx.Exec(ctx, feedSQL["remove pages"], p.First, p.First); err != nil {
				return behind, err
			}
		}
		last = p.First
	}
	if len(pages) < limit {
		return 0, nil
	}
	return last, nil
}

// nearby is the largest distance between event numbers that are read in one statement.
const nearby = 64

// EventsAt reads the events of a page, each with its position. Events that no longer exist
// are left out.
func EventsAt(ctx context.Context, tx Tx, p FeedPage) ([]pawl.Event, error) {
	at := make(map[int64]int, len(p.IDs))
	for i, id := range p.IDs {
		at[id] = i
	}
	found := make([]pawl.Event, len(p.IDs))
	for _, s := range spansOf(p.IDs) {
		var w where
		w.and("e.id >= ?", s.Low)
		w.and("e.id <= ?", s.High)
		err := scanEvents(ctx, tx, w.text(readSQL["events"], "e.id", int(s.High-s.Low)+1), w.args, func(id int64, e pawl.Event) {
			if i, ours := at[id]; ours {
				e.Position = p.First + int64(i)
				found[i] = e
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return slices.DeleteFunc(found, func(e pawl.Event) bool { return e.Position == 0 }), nil
}

// spansOf covers the numbers with spans. Each span is read in one statement.
func spansOf(ids []int64) []Span {
	var out []Span
	for _, id := range slices.Sorted(slices.Values(ids)) {
		if n := len(out); n > 0 && id-out[n-1].High <= nearby {
			out[n-1].High = id
		} else {
			out = append(out, Span{id, id})
		}
	}
	return out
}

// EventsAfter reads up to limit events after a position. Here the number of an event is
// its position.
func EventsAfter(ctx context.Context, tx Tx, position int64, limit int) ([]pawl.Event, error) {
	var w where
	w.and("e.id > ?", position)
	var out []pawl.Event
	err := scanEvents(ctx, tx, w.text(readSQL["events"], "e.id", limit), w.args, func(id int64, e pawl.Event) {
		e.Position = id
		out = append(out, e)
	})
	return out, err
}

// Pack encodes numbers as their differences. Numbers that are close to each other take one
// or two bytes each.
func Pack(ids []int64) []byte {
	out := make([]byte, 0, 2*len(ids))
	var last int64
	for _, id := range ids {
		out = binary.AppendVarint(out, id-last)
		last = id
	}
	return out
}

// Unpack decodes what Pack wrote.
func Unpack(packed []byte) []int64 {
	var out []int64
	var last int64
	for len(packed) > 0 {
		d, n := binary.Varint(packed)
		if n <= 0 {
			return out
		}
		last += d
		out = append(out, last)
		packed = packed[n:]
	}
	return out
}
