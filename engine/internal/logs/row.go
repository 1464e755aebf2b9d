package logs

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/pawl-work/pawl/store"
)

//go:embed log.sql
var sqlFile embed.FS

var texts = store.Texts(sqlFile, "log.sql")

// epoch is one history of the log. A new one begins when the database went back in time.
type epoch struct {
	Epoch      int64
	Origin     string // the name of the log: the first line of its checkpoints
	Size       int64  // the leaves of the epoch before that are in this one too
	Lost       int64  // leaves Size … Lost-1 of the epoch before are lost
	Checkpoint string // the last checkpoint of the epoch before
	CreatedAt  int64
}

// readEpochs lists the histories of the log, oldest first.
func readEpochs(ctx context.Context, tx store.Tx) ([]epoch, error) {
	return store.All(ctx, tx, texts["epochs"], nil, func(rows store.Rows, e *epoch) error {
		return rows.Scan(&e.Epoch, &e.Origin, &e.Size, &e.Lost, &e.Checkpoint, &e.CreatedAt)
	})
}

// begin begins a new history of the log, whose Size, Lost and Checkpoint are set.
func (e epoch) begin(ctx context.Context, tx store.Tx, last epoch) (_ epoch, err error) {
	e.Epoch = last.Epoch + 1
	e.Origin = fmt.Sprintf("%s/%d", strings.TrimSuffix(last.Origin, fmt.Sprintf("/%d", last.Epoch)), e.Epoch)
	if e.CreatedAt, err = tx.Now(ctx); err == nil {
		_, err = tx.Exec(ctx, texts["put epoch"], e.Epoch, e.Origin, e.Size, e.Lost, e.Checkpoint, e.CreatedAt)
	}
	return e, err
}

// signedCheckpoint is the newest checkpoint that a signer has made, or that a witness has cosigned.
type signedCheckpoint struct {
	Signer    string // the key, of the log or of the witness: its name and hash
	Epoch     int64
	Size      int64
	Note      string
	CreatedAt int64
}

// body is what is signed, without the signatures.
func (c signedCheckpoint) body() string {
	text, _, _ := strings.Cut(c.Note, "\n\n")
	return text
}

// signedCheckpoints lists the newest checkpoint of each signer, the largest first.
func signedCheckpoints(ctx context.Context, tx store.Tx) ([]signedCheckpoint, error) {
	return store.All(ctx, tx, texts["checkpoints"], nil, func(rows store.Rows, c *signedCheckpoint) error {
		return rows.Scan(&c.Signer, &c.Epoch, &c.Size, &c.Note, &c.CreatedAt)
	})
}

// putCheckpoint stores a signer's newest checkpoint.
func putCheckpoint(ctx context.Context, tx store.Tx, c signedCheckpoint) error {
	_, err := tx.Exec(ctx, texts["put checkpoint"], c.Signer, c.Epoch, c.Size, c.Note, c.CreatedAt)
	return err
}
