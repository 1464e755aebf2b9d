package engine

import (
	"context"

	"github.com/pawl-work/pawl/store"
)

// logEpoch is one history of the log. A new one begins when the database went back in time.
type logEpoch struct {
	Epoch      int64
	Origin     string // the name of the log: the first line of its checkpoints
	Size       int64  // the leaves of the epoch before that are in this one too
	Lost       int64  // leaves Size … Lost-1 of the epoch before are lost
	Checkpoint string // the last checkpoint of the epoch before
	CreatedAt  int64
}

// readEpochs lists the histories of the log, oldest first.
func readEpochs(ctx context.Context, tx store.Tx) ([]logEpoch, error) {
	rows, err := tx.Query(ctx, treeSQL["epochs"])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []logEpoch
	for rows.Next() {
		var e logEpoch
		if err := rows.Scan(&e.Epoch, &e.Origin, &e.Size, &e.Lost, &e.Checkpoint, &e.CreatedAt); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

// putEpoch begins a new history of the log.
func putEpoch(ctx context.Context, tx store.Tx, e logEpoch) error {
	_, err := tx.Exec(ctx, treeSQL["put epoch"], e.Epoch, e.Origin, e.Size, e.Lost, e.Checkpoint, e.CreatedAt)
	return err
}

// signedCheckpoint is the newest checkpoint that a signer has made.
type signedCheckpoint struct {
	Signer    string // the key: its name and hash
	Epoch     int64
	Size      int64
	Note      string
	CreatedAt int64
}

// signedCheckpoints lists the newest checkpoint of each signer, the largest first.
func signedCheckpoints(ctx context.Context, tx store.Tx) ([]signedCheckpoint, error) {
	rows, err := tx.Query(ctx, treeSQL["checkpoints"])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []signedCheckpoint
	for rows.Next() {
		var c signedCheckpoint
		if err := rows.Scan(&c.Signer, &c.Epoch, &c.Size, &c.Note, &c.CreatedAt); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// putCheckpoint stores a signer's newest checkpoint.
func putCheckpoint(ctx context.Context, tx store.Tx, c signedCheckpoint) error {
	_, err := tx.Exec(ctx, treeSQL["put checkpoint"], c.Signer, c.Epoch, c.Size, c.Note, c.CreatedAt)
	return err
}
