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

// Commits is what giving positions after commit asks of a database in which the
// numbers of events are not the order of their commit.
type Commits struct {
	// Drawn is the highest number that any transaction has drawn for an event,
	// committed or not. It also bounds how long a process that stands still may
	// keep this transaction open.
	Drawn func(ctx context.Context, tx Tx) (int64, error)
	// Among lists, in order, the events there are with numbers in any of the spans.
	Among func(ctx context.Context, tx Tx, spans []Span) ([]int64, error)
	// Running is every other transaction under way in this database.
	Running func(ctx context.Context, tx Tx) (Running, error)
	// Server names the server that answers, in its present history.
	Server func(ctx context.Context, tx Tx) (Server, error)
	// Reset closes the connections: one of them leads to a server that is not the
	// newest.
	Reset func()
}

// Running is transactions under way. One that is prepared meanwhile is in either or
// in both.
type Running struct {
	Open     map[string]string // by name, with their transaction numbers; "" = none yet, or not known
	Prepared map[string]bool   // by transaction number: no process has them
}

// Server is a database server in one history. After a failover the timeline is
// another one; after a restore from a dump, the system is. The zero value: unknown.
type Server struct {
	System   string `json:"system,omitempty"`
	Timeline int64  `json:"timeline,omitempty"`
	Standby  bool   `json:"-"` // it follows a primary and takes no writes
}

// EpochStart is where an epoch begins: its positions are above this one.
type EpochStart struct {
	Epoch    int64 `json:"epoch"`
	Position int64 `json:"position"`
}

// Span is the numbers from Low to High, both included.
type Span struct{ Low, High int64 }

// FeedState is how far positions have been given.
type FeedState struct {
	Position int64  // the newest
	Top      int64  // numbers up to this have one, or are in Gaps, or never will
	Gaps     []Span // numbers up to Top that have not come to light, in order
	Loose    int64  // the first of the newest pages that are still to be packed; 0 = none
	Pages    int    // how many of them
	IDs      int    // and with how many events
	Epoch    int64  // it rises when the database went back in time
	Starts   []EpochStart
	Server   Server // that gave the newest positions
}

// epochsKept bounds the starts of epochs that are kept; of older ones the lowest.
const epochsKept = 100

// Raise begins an epoch behind the newest position.
func (s *FeedState) Raise(epoch int64) {
	s.Epoch = epoch
	s.Starts = append(slices.Clone(s.Starts), EpochStart{epoch, s.Position})
	if len(s.Starts) > epochsKept {
		s.Starts[1].Position = min(s.Starts[0].Position, s.Starts[1].Position)
		s.Starts = s.Starts[1:]
	}
}

// Restart is where a reader of another epoch goes on: behind what is in the
// present history and in that of its epoch.
func (s FeedState) Restart(at pawl.FeedPosition) pawl.FeedPosition {
	out := pawl.FeedPosition{Epoch: s.Epoch, Position: at.Position}
	if at.Epoch > s.Epoch { // of a history that this database knows nothing of
		out.Position = 0
	}
	for _, e := range s.Starts {
		if e.Epoch > at.Epoch {
			out.Position = min(out.Position, e.Position)
		}
	}
	return out
}

// EpochAt is the epoch in which a position was given.
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

	Epoch  int64        `json:"epoch,omitempty"`
	Starts []EpochStart `json:"epochs,omitempty"`
	Server *Server      `json:"server,omitempty"`
}

// ReadFeed reads how far positions have been given.
func ReadFeed(ctx context.Context, tx Tx) (FeedState, error) {
	s, _, err := readFeed(ctx, tx, "feed at")
	return s, err
}

// LockFeed is ReadFeed, and keeps others from giving positions until the
// transaction ends.
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
	s.Top, s.Loose, s.Pages, s.IDs, s.Epoch, s.Starts = d.Top, d.Loose, d.Pages, d.IDs, d.Epoch, d.Starts
	if d.Server != nil {
		s.Server = *d.Server
	}
	packed, err := base64.RawStdEncoding.DecodeString(d.Gaps)
	if err != nil {
		return s, true, err
	}
	bounds := Unpack(packed)
	for i := 0; i+1 < len(bounds); i += 2 {
		s.Gaps = append(s.Gaps, Span{bounds[i], bounds[i+1]})
	}
	return s, true, nil
}

// MoveFeed writes how far positions have been given, after HoldFeed.
func MoveFeed(ctx context.Context, tx Tx, now int64, s FeedState) error {
	var bounds []int64
	for _, g := range s.Gaps {
		bounds = append(bounds, g.Low, g.High)
	}
	d := feedDetail{Top: s.Top, Gaps: base64.RawStdEncoding.EncodeToString(Pack(bounds)), Loose: s.Loose, Pages: s.Pages, IDs: s.IDs, Epoch: s.Epoch, Starts: s.Starts}
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

// Numbers lists up to limit events with numbers above one and up to another, in
// order.
func Numbers(ctx context.Context, tx Tx, above, upTo int64, limit int) ([]int64, error) {
	return Ints(ctx, tx, feedSQL["numbers"], above, upTo, limit)
}

// NewestNumber is the number of the newest event; 0 = there is none.
func NewestNumber(ctx context.Context, tx Tx) (int64, error) {
	var id int64
	_, err := Row(ctx, tx, []any{&id}, feedSQL["newest number"])
	return id, err
}

// FeedPage is the events' numbers from position First on.
type FeedPage struct {
	First int64
	IDs   []int64
}

// PutPage adds a page behind the newest.
func PutPage(ctx context.Context, tx Tx, now int64, p FeedPage) error {
	_, err := tx.Exec(ctx, feedSQL["put page"], p.First, Pack(p.IDs), len(p.IDs), now)
	return err
}

// PackPages makes one page of those from first to last.
func PackPages(ctx context.Context, tx Tx, now, first, last int64) error {
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
	return PutPage(ctx, tx, now, whole)
}

// FeedPages reads pages from the one that holds a position on, or the next one
// where it is gone: as many as it takes to have so many events, at most most.
// What lies before the position is cut off.
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

// PruneFeed looks at up to limit packed pages behind one that were made before a
// time, removes those between whose numbers there are no events any more, and
// says which was the last; 0 = there are no more.
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
		used, err := Row(ctx, tx, []any{&one}, feedSQL["any number"], slices.Min(p.IDs), slices.Max(p.IDs))
		if err != nil {
			return behind, err
		}
		if !used {
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

// nearby is how far apart the numbers of events may be that are read in one
// statement.
const nearby = 64

// EventsAt reads the events of a page, each with its position; those that are
// gone are left out.
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

// spansOf covers numbers with spans, each to be read in one statement.
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

// EventsAfter reads up to limit events whose numbers, which are their positions,
// are above one.
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

// Pack writes numbers as their differences: near ones take a byte or two.
func Pack(ids []int64) []byte {
	out := make([]byte, 0, 2*len(ids))
	var last int64
	for _, id := range ids {
		out = binary.AppendVarint(out, id-last)
		last = id
	}
	return out
}

// Unpack reads what Pack wrote.
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
