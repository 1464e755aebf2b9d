package kernel

import (
	"context"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
)

const (
	// BreachesShown is how many breaches of one rule an answer of the doctor lists at most.
	BreachesShown = 20
	// CheckLimit is the time limit of one statement of the doctor, which may read the whole database.
	CheckLimit = time.Hour
)

// Room is the declaration of a room: what the others have to know of it. The engine walks the declarations.
type Room struct {
	Name   string
	Tables []Table
	// Steps are parts of each whole pass of the sweep, and quick ones of each pass.
	Steps []store.Step
	// Rules and Warnings are those of the doctor.
	Rules    []store.RuleSearch
	Warnings []store.Look
	// Unused are kinds of blobs that are removed when nothing refers to them.
	Unused []func() store.UnusedBlobs
	// Gauges are metrics; nil = none.
	Gauges func(ctx context.Context, tx store.Tx, now int64) ([]pawl.Gauge, error)
}

// Table is a table of a room.
type Table struct {
	Name string
	// Key says of what a row is one: task, item, namespace, or another row.
	Key string
	// Archive and Copy say what archives, and forks and clones, take of the rows of a task; "" = a row is of no task.
	Archive, Copy string
	// Values are the columns with values of callers, which may refer to blobs. Plain are the other columns of texts.
	Values, Plain []string
	// Changes says when a row changes after it was written, and which event tells of it.
	Changes string
}
