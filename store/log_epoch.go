package store

import "context"

// LogEpoch is one history of the log. A new one begins when the database went back in time.
type LogEpoch struct {
	Epoch      int64
	Origin     string // the name of the log: the first line of its checkpoints
	Size       int64  // the leaves of the epoch before that are in this one too
	Lost       int64  // leaves Size … Lost-1 of the epoch before are lost
	Checkpoint string // the last checkpoint of the epoch before
	CreatedAt  int64
}

// ReadEpochs lists the histories of the log, oldest first.
func ReadEpochs(ctx context.Context, tx Tx) ([]LogEpoch, error) {
	rows, err := tx.Query(ctx, treeSQL["epochs"])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []LogEpoch
	for rows.Next() {
		var e LogEpoch
		if err := rows.Scan(&e.Epoch, &e.Origin, &e.Size, &e.Lost, &e.Checkpoint, &e.CreatedAt); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, rows.Err()
}

// PutEpoch begins a new history of the log.
func PutEpoch(ctx context.Context, tx Tx, e LogEpoch) error {
	_, err := tx.Exec(ctx, treeSQL["put epoch"], e.Epoch, e.Origin, e.Size, e.Lost, e.Checkpoint, e.CreatedAt)
	return err
}

// SignedCheckpoint is the newest checkpoint that a signer has made.
type SignedCheckpoint struct {
	Signer    string // the key: its name and hash
	Epoch     int64
	Size      int64
	Note      string
	CreatedAt int64
}

// SignedCheckpoints lists the newest checkpoint of each signer, the largest first.
func SignedCheckpoints(ctx context.Context, tx Tx) ([]SignedCheckpoint, error) {
	rows, err := tx.Query(ctx, treeSQL["checkpoints"])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []SignedCheckpoint
	for rows.Next() {
		var c SignedCheckpoint
		if err := rows.Scan(&c.Signer, &c.Epoch, &c.Size, &c.Note, &c.CreatedAt); err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, rows.Err()
}

// PutCheckpoint stores a signer's newest checkpoint.
func PutCheckpoint(ctx context.Context, tx Tx, c SignedCheckpoint) error {
	_, err := tx.Exec(ctx, treeSQL["put checkpoint"], c.Signer, c.Epoch, c.Size, c.Note, c.CreatedAt)
	return err
}
