package pawl

import "time"

// LogCheckpoint is a signed state of the transparency log: the log's name, its number of
// leaves, and the root of their Merkle tree (RFC 6962).
type LogCheckpoint struct {
	Origin   string    `json:"origin"`
	Size     int64     `json:"size"`
	Root     string    `json:"root"` // in base64
	SignedAt time.Time `json:"signed_at,omitzero"`
	Note     string    `json:"note"` // as it was signed: C2SP tlog-checkpoint
}

// LogProof proves that an event is in the transparency log: its leaf, and the hashes that
// lead from it to the root of a checkpoint.
type LogProof struct {
	EventID string   `json:"event_id"`
	Index   int64    `json:"index"`  // of the leaf, from 0
	Leaf    string   `json:"leaf"`   // the leaf's hash, in base64
	Hashes  []string `json:"hashes"` // in base64, the lowest first
}

// TaskProof has the proofs of a page of a task's events under one checkpoint, in the order of
// the events. Events that are not under it yet have none. Another page may have a newer
// checkpoint.
type TaskProof struct {
	Checkpoint LogCheckpoint `json:"checkpoint"`
	Proofs     []LogProof    `json:"proofs"`
	Next       string        `json:"next,omitempty"` // the cursor of the next page; "" = the last one
}

// LogConsistency proves that the transparency log of one size continues that of a smaller
// size (RFC 6962).
type LogConsistency struct {
	From   int64    `json:"from"`
	To     int64    `json:"to"`
	Hashes []string `json:"hashes"` // in base64
}
