package store

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

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

// ReadArchiveLogs returns the lines for the archives of tasks; a task has none when the log has none of its events. The
// hashes of the log are read and checked once for all of them. When what a task needs of the log is not what was signed,
// its line has no proofs, and its flaw says why.
func ReadArchiveLogs(ctx context.Context, tx Tx, signed SignedRoot, taskIDs []string,
) (lines map[string][]byte, flaws map[string]error, err error) {
	logs, err := archiveLogs(ctx, tx, taskIDs)
	if err != nil || len(logs) == 0 {
		return nil, nil, err
	}
	lines, flaws = make(map[string][]byte, len(logs)), map[string]error{}
	if signed.Size > 0 {
		err = proveLogs(ctx, tx, signed, slices.Collect(maps.Values(logs))...)
		if errors.Is(err, errNotUnderRoot) { // perhaps for one of them
			for id, l := range logs {
				if flaws[id] = proveLogs(ctx, tx, signed, l); flaws[id] != nil && !errors.Is(flaws[id], errNotUnderRoot) {
					return nil, nil, flaws[id]
				}
			}
		} else if err != nil {
			return nil, nil, err
		}
	}
	for id, l := range logs {
		line, err := json.Marshal(l)
		if err != nil {
			return nil, nil, err
		}
		lines[id] = append(line, '\n')
	}
	return lines, flaws, nil
}

// archiveLogs returns the lines of tasks without proofs.
func archiveLogs(ctx context.Context, tx Tx, taskIDs []string) (map[string]*ArchiveLog, error) {
	events, err := EventsToRemove(ctx, tx, taskIDs)
	if err != nil {
		return nil, err
	}
	return logsOf(ctx, tx, events)
}

// EventsToRemove returns the numbers of the events of tasks that are removed with them.
func EventsToRemove(ctx context.Context, tx Tx, taskIDs []string) (map[string][]int64, error) {
	events := make(map[string][]int64, len(taskIDs))
	r := rowsOfMany(taskIDs)
	return events, EachRow(ctx, tx, func(rows Rows) error {
		var task string
		var id int64
		err := rows.Scan((*TaskID)(&task), &id)
		events[task] = append(events[task], id)
		return err
	}, r.sql["numbers to remove"], r.arg)
}

// logsOf returns the lines of tasks that have these events, without proofs.
func logsOf(ctx context.Context, tx Tx, events map[string][]int64) (map[string]*ArchiveLog, error) {
	var all []int64
	for _, ids := range events {
		all = append(all, ids...)
	}
	slices.Sort(all)
	places, err := leafIndexes(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	out := make(map[string]*ArchiveLog, len(events))
	for task, ids := range events {
		slices.Sort(ids)
		l := &ArchiveLog{Table: logLine}
		for _, id := range ids {
			if at, placed := places[id]; placed {
				l.Events, l.Leaves = append(l.Events, id), append(l.Leaves, at)
			}
		}
		if len(l.Events) > 0 {
			out[task] = l
		}
	}
	return out, nil
}

// proveLogs adds the proofs of lines under a signed root.
func proveLogs(ctx context.Context, tx Tx, signed SignedRoot, logs ...*ArchiveLog) error {
	var leaves []int64
	for _, l := range logs {
		leaves = append(leaves, l.Leaves...)
	}
	signed = signed.over(leaves)
	hashes, err := checkedHashes(ctx, tx, signed.LogRoot, func(from tlog.HashReader) error {
		for _, l := range logs {
			if _, err := l.proofs(signed.Size, from); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, l := range logs {
		proofs, err := l.proofs(signed.Size, hashes)
		if err != nil {
			return err
		}
		l.Checkpoint = signed.Note
		l.keep(proofs)
	}
	return nil
}

// proofs returns the proofs of the line's leaves in a log of so many; a leaf beyond has none.
func (l *ArchiveLog) proofs(size int64, from tlog.HashReader) ([]tlog.RecordProof, error) {
	out := make([]tlog.RecordProof, len(l.Leaves))
	for i, leaf := range l.Leaves {
		if leaf >= size {
			continue
		}
		var err error
		if out[i], err = tlog.ProveRecord(size, leaf, from); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// keep puts proofs into the line, each hash once.
func (l *ArchiveLog) keep(proofs []tlog.RecordProof) {
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

// only returns what the line says of some events, which are in order as its own are.
func (l *ArchiveLog) only(ids []int64) *ArchiveLog {
	if l == nil || len(ids) == 0 || len(l.Proofs) != len(l.Events) || len(l.Leaves) != len(l.Events) {
		return nil
	}
	from, _ := slices.BinarySearch(l.Events, ids[0])
	to, _ := slices.BinarySearch(l.Events, ids[len(ids)-1]+1)
	to = max(from, to)
	return &ArchiveLog{Events: l.Events[from:to], Leaves: l.Leaves[from:to], Proofs: l.Proofs[from:to],
		Hashes: l.Hashes, Checkpoint: l.Checkpoint}
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
