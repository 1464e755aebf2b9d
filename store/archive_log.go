package store

import (
	"context"
	"encoding/json"
	"errors"
	"math"

	"golang.org/x/mod/sumdb/tlog"
)

// logLine is the table that the last line of an archive names.
const logLine = "log"

// ArchiveLog is the last line of an archive: the places of the task's events in the
// transparency log, and what proves them. Who has the archive and the public key of the log
// can check its events without the database.
type ArchiveLog struct {
	Table  string  `json:"table"`
	Events []int64 `json:"events"` // their numbers
	Leaves []int64 `json:"leaves"` // the index of each one's leaf, from 0
	// Checkpoint is signed. Proofs has, for each event below its size, the places in Hashes of the
	// hashes that lead from its leaf to the root, the lowest first (RFC 6962).
	Checkpoint string      `json:"checkpoint,omitempty"`
	Proofs     [][]int     `json:"proofs,omitempty"`
	Hashes     []tlog.Hash `json:"hashes,omitempty"`
}

// ReadArchiveLog returns the line for a task's archive; nil when the log has none of its events.
// When the log is not the one that was signed, the line has no proofs, and flaw says why.
func ReadArchiveLog(ctx context.Context, tx Tx, signed SignedRoot, taskID string) (line []byte, flaw, err error) {
	ids, err := Ints(ctx, tx, archiveSQL["events to remove"], TaskID(taskID), math.MaxInt32)
	if err != nil {
		return nil, nil, err
	}
	places, err := LeafIndexes(ctx, tx, ids)
	if err != nil || len(places) == 0 {
		return nil, nil, err
	}
	l := ArchiveLog{Table: logLine}
	for _, id := range ids {
		if at, placed := places[id]; placed {
			l.Events, l.Leaves = append(l.Events, id), append(l.Leaves, at)
		}
	}
	if signed.Size > 0 {
		err := l.prove(ctx, tx, signed)
		if errors.Is(err, errNotUnderRoot) {
			flaw, err = err, nil
		}
		if err != nil {
			return nil, nil, err
		}
	}
	line, err = json.Marshal(l)
	return append(line, '\n'), flaw, err
}

// prove adds the proofs under a signed root.
func (l *ArchiveLog) prove(ctx context.Context, tx Tx, signed SignedRoot) error {
	var proofs []tlog.RecordProof
	all := func(from tlog.HashReader) error {
		proofs = nil
		for _, leaf := range l.Leaves {
			var p tlog.RecordProof
			var err error
			if leaf < signed.Size {
				if p, err = tlog.ProveRecord(signed.Size, leaf, from); err != nil {
					return err
				}
			}
			proofs = append(proofs, p)
		}
		return nil
	}
	hashes, err := checkedHashes(ctx, tx, signed.LogRoot, all)
	if err == nil {
		err = all(hashes)
	}
	if err != nil {
		return err
	}
	l.Checkpoint = signed.Note
	places := map[tlog.Hash]int{}
	for _, p := range proofs {
		at := make([]int, len(p))
		for i, h := range p {
			place, there := places[h]
			if !there {
				place = len(l.Hashes)
				places[h], l.Hashes = place, append(l.Hashes, h)
			}
			at[i] = place
		}
		l.Proofs = append(l.Proofs, at)
	}
	return nil
}

// proof returns the proof of an event; nil = it has none.
func (l *ArchiveLog) proof(i int) (out tlog.RecordProof) {
	if i >= len(l.Proofs) {
		return nil
	}
	for _, at := range l.Proofs[i] {
		if at < 0 || at >= len(l.Hashes) {
			return nil
		}
		out = append(out, l.Hashes[at])
	}
	return out
}

// Proved returns the leaves of the events that the line proves to be under the root of its
// checkpoint. leaves are the hashes that an event's leaf may have.
func (l *ArchiveLog) Proved(root LogRoot, leaves func(id int64) []tlog.Hash) map[int64]int64 {
	out := map[int64]int64{}
	for i, id := range l.Events {
		if i >= len(l.Leaves) || l.Leaves[i] < 0 || l.Leaves[i] >= root.Size {
			continue
		}
		proof := l.proof(i)
		for _, h := range leaves(id) {
			if tlog.CheckRecord(proof, root.Size, root.Root, l.Leaves[i], h) == nil {
				out[id] = l.Leaves[i]
				break
			}
		}
	}
	return out
}
