package relocate

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const (
	// FenceTime is how long the source refuses changes at most, when the mover has died.
	FenceTime = time.Minute
	// fewChanges is how many changes are left when the source is fenced.
	fewChanges = 500
	// shortRound is how long the last copy before the fence may take.
	shortRound = time.Second
	// examinations is how often the target of a whole database is examined before the fence, until it is clean.
	examinations = 3
	// rounds bounds how often changes that were written beside the fence are copied.
	rounds = 20
)

// Options of a move.
type Options struct {
	From, To store.DB
	// FromNamed and ToNamed are where they are: store.Place.Named.
	FromNamed, ToNamed string
	Namespace          string // "" = all
	URL                string // what callers of the source are told; "" = nothing
	NewID              func() string
	Log                *slog.Logger
	// Settle gives all events of the source their positions and leaves; those of the target, when a move is cancelled.
	Settle func(ctx context.Context) error
	// Check examines the target, before it has what moves.
	Check func(ctx context.Context) error
	// Archive reads an archive of the source from its file.
	Archive func(path, sha256 string) ([]byte, error)
	// Renumber gives the events of an archive the numbers that number returns for theirs.
	Renumber func(body, contents []byte, number func(ids []int64) (map[int64]int64, error)) (store.Segment, error)
	// Relays changes all relays.
	Relays func(ctx context.Context, tx store.Tx, change func(now int64, r *pawl.Relay) error) error
	// Step is told each step that is done, for tests; nil = not called.
	Step func(name string)
}

// Result is what a move has done.
type Result struct {
	ID        string           `json:"id"`
	Namespace string           `json:"namespace,omitempty"`
	Rows      map[string]int64 `json:"rows"`
	Paused    time.Duration    `json:"-"`
	PausedMS  int64            `json:"paused_ms"` // how long the source refused changes before it was given away
}

// mover is a move that runs.
type mover struct {
	Options
	from, to       *side
	source, target Relocation
	numbers        *numbers
	token          string // this process, in the rows of the move
	ordered        bool   // the events that were there first have their numbers
	result         Result
}

// Move moves a database or a namespace. It goes on with a move that was interrupted.
func Move(ctx context.Context, o Options) (Result, error) {
	m := &mover{Options: o, from: &side{db: o.From}, to: &side{db: o.To}}
	m.token = m.NewID()
	m.numbers = &numbers{m: m}
	m.numbers.forget()
	if m.Step == nil {
		m.Step = func(string) {}
	}
	if err := m.compare(ctx); err != nil {
		return m.result, err
	}
	if err := m.begin(ctx); err != nil {
		return m.result, err
	}
	if m.source.Step == done {
		return m.result, nil
	}
	if !m.source.Left() {
		if err := m.Settle(ctx); err != nil { // if no server runs at the source, nothing else does it before the fence
			return m.result, err
		}
		if err := m.copy(ctx); err != nil {
			return m.result, err
		}
		if err := m.Settle(ctx); err != nil {
			return m.result, err
		}
		if err := m.catchUpBeside(ctx); err != nil {
			return m.result, err
		}
		if err := m.giveAway(ctx); err != nil {
			return m.result, err
		}
	}
	return m.result, m.finish(ctx)
}

func conflict(format string, args ...any) error {
	return &pawl.Error{Code: pawl.CodeConflict, Op: "move", Message: fmt.Sprintf(format, args...), Allowed: []string{}}
}

// compare refuses two databases whose schemas differ.
func (m *mover) compare(ctx context.Context) error {
	if m.FromNamed == m.ToNamed {
		return &pawl.Error{Code: pawl.CodeInvalid, Op: "move", Message: "the source and the target are the same database"}
	}
	for _, s := range []*side{m.from, m.to} {
		if err := s.read(ctx); err != nil {
			return err
		}
	}
	newest := [2]int64{}
	for i, s := range []*side{m.from, m.to} {
		list, err := s.db.Dialect().Migrator.Status(ctx)
		if err != nil {
			return err
		}
		for _, x := range list {
			if x.ExecutedAt > 0 {
				newest[i] = max(newest[i], x.ID)
			}
		}
	}
	if newest[0] != newest[1] {
		return conflict("the schemas differ: the source has migration %d, the target %d; run `pawl migrate up` on both", newest[0], newest[1])
	}
	return nil
}
