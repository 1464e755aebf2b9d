package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pawl-work/pawl"
)

// EventProof is the proof that an event is under a root.
type EventProof struct {
	EventID string
	Leaf    int64
	Hash    tlog.Hash
	Proof   tlog.RecordProof
}

// ProveEvents returns the proofs of a page of a task's events, of those that are under the
// root, in the order of the events. The hashes of the log are checked against the root, each
// tile once.
func ProveEvents(ctx context.Context, tx Tx, root LogRoot, taskID string, page pawl.Page) (out []EventProof, next string, err error) {
	after := int64(0)
	if page.Cursor != "" {
		if after, err = strconv.ParseInt(strings.TrimPrefix(page.Cursor, "evt_"), 10, 64); err != nil {
			return nil, "", NotACursor()
		}
	}
	ids, err := Ints(ctx, tx, treeSQL["some numbers of task"], TaskID(taskID), after, page.Limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(ids) > page.Limit {
		ids = ids[:page.Limit]
		next = eventID(ids[page.Limit-1])
	}
	places, err := leafIndexes(ctx, tx, ids)
	if err != nil {
		return nil, "", err
	}
	for _, id := range ids {
		if at, placed := places[id]; placed && at < root.Size {
			out = append(out, EventProof{EventID: eventID(id), Leaf: at})
		}
	}
	return out, next, prove(ctx, tx, root, out)
}

// prove sets the hashes of proofs whose leaves are set.
func prove(ctx context.Context, tx Tx, root LogRoot, list []EventProof) error {
	if len(list) == 0 {
		return nil
	}
	hashes, err := checkedHashes(ctx, tx, root, func(from tlog.HashReader) error { return proofs(root, list, from) })
	if err != nil {
		return err
	}
	return proofs(root, list, hashes)
}

// errNotUnderRoot says that hashes of the log are missing, or do not agree with the root.
var errNotUnderRoot = errors.New("the log is not the one that was signed")

// checkedHashes returns the hashes that reads needs, which it calls with a reader that has none.
// They are checked against the root, each tile once.
func checkedHashes(ctx context.Context, tx Tx, root LogRoot, reads func(from tlog.HashReader) error) (knownHashes, error) {
	tree, err := ReadTree(ctx, tx)
	if err != nil {
		return nil, err
	}
	hashes := knownHashes{}
	note := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		for _, i := range indexes {
			hashes[i] = tlog.Hash{}
		}
		return make([]tlog.Hash, len(indexes)), nil
	})
	if err := reads(note); err != nil {
		return nil, err
	}
	needed := slices.Sorted(maps.Keys(hashes))
	checked, err := tlog.TileHashReader(tlog.Tree{N: root.Size, Hash: root.Root}, tree).ReadHashes(needed)
	var cut *TileError
	if err != nil && (tree.failed == nil || errors.As(tree.failed, &cut)) {
		err = fmt.Errorf("%w: %w", errNotUnderRoot, err)
	}
	if err != nil {
		return nil, err
	}
	for i, index := range needed {
		hashes[index] = checked[i]
	}
	return hashes, nil
}

// proofs sets the hashes of proofs from those of a reader.
func proofs(root LogRoot, list []EventProof, from tlog.HashReader) error {
	for i := range list {
		p := &list[i]
		leaf, err := from.ReadHashes(storedLeaves([]int64{p.Leaf}))
		if err != nil {
			return err
		}
		p.Hash = leaf[0]
		if p.Proof, err = tlog.ProveRecord(root.Size, p.Leaf, from); err != nil {
			return err
		}
	}
	return nil
}

// knownHashes are hashes of a log by their stored indexes.
type knownHashes map[int64]tlog.Hash

// ReadHashes implements tlog.HashReader.
func (k knownHashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		out[i] = k[index]
	}
	return out, nil
}
