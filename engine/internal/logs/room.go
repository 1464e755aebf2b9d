// Package logs is the room of the transparency log: who signs it and who cosigns it, what becomes of it when the database
// goes back in time, proofs, and its comparison with the events. The sequencer of the feed writes its leaves: the tree
// and the leaves are in store.
package logs

import (
	"context"

	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/translog"
)

// Log is the transparency log of a database. Its methods are those of pawl.Service, and those of an Engine that sign and
// verify the log.
type Log struct {
	k *kernel.Kernel
	*signer
}

// signer is what this process signs the log with.
type signer struct {
	key       string                                       // the file of the signing key; "" = this process signs nothing
	send      func(ctx context.Context, note string) error // is given new checkpoints; nil = not called
	cosigners cosigners
}

// New returns the log of a database, which this process signs with the key in a file, and has cosigned by witnesses.
func New(k *kernel.Kernel, key string, send func(ctx context.Context, note string) error, witnesses []*translog.Witness) *Log {
	g := &Log{k, &signer{key, send, newCosigners(witnesses)}}
	k.Loops = append(k.Loops, g.signLoop, g.cosignLoop)
	k.Gauges = append(k.Gauges, g.witnessGauges)
	k.Warnings = append(k.Warnings, g.witnessWarnings, g.epochWarning)
	k.Signed = g.newestSigned
	return g
}

// Over returns the log over another Kernel of the database.
func Over(g *Log, k *kernel.Kernel) *Log { return &Log{k, g.signer} }

// Declared is the declaration of the room. Its rows are of no task, and no copy takes them.
func Declared() kernel.Room {
	return kernel.Room{Name: "logs", Tables: []kernel.Table{
		{Name: "log_epochs", Key: "history", Plain: []string{"origin", "checkpoint"}, Changes: "never"},
		{Name: "log_checkpoints", Key: "signer", Plain: []string{"signer", "note"}, Changes: "with each larger checkpoint of its signer"},
		{Name: "log_runs", Key: "leaves", Changes: "never; it is removed when its tile is complete"},
		{Name: "log_tiles", Key: "leaves", Changes: "never"},
		{Name: "log_pages", Key: "leaves", Changes: "never"},
		{Name: "log_removals", Key: "removed events", Plain: []string{"counts"},
			Changes: "when it gets its leaf; it may then stand for others too, which are removed"},
	}}
}
