package logs

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"

	"github.com/pawl-work/pawl/store"
)

// The kinds of faults that the log alone has.
const (
	faultInserted = "inserted" // the row of an event is in no page of the log that passed it
	faultLeaf     = "leaf"     // a leaf of the log is not what was logged
	faultPage     = "page"     // a page of positions is missing or cut off, or names what another page names
	faultTile     = "tile"     // hashes of the log are missing or cut off
	faultRemoval  = "removal"  // a record of removed events is gone or changed, or not in the log
)

func eventID(id int64) string { return "evt_" + strconv.FormatInt(id, 10) }

// nameOf returns the id of the event with a number of a page; "" for a removal.
func nameOf(id int64) string {
	if id < 0 {
		return ""
	}
	return eventID(id)
}

// judge names what differs: rows, when the log agrees with the root; leaves of the log, when
// it does so with the hashes of the rows in their place.
func judge(root store.LogRoot, sound, patched bool, differ map[int64]store.Compared) (out []store.LogFault) {
	kind, found := store.FaultChanged, "the row, or the input or result that it stands for, is not what was logged"
	switch {
	case sound:
	case patched && len(differ) > 0:
		kind, found = faultLeaf, "the leaf of the log was changed; the row is what was logged"
	default:
		found = "the row and the leaf of the log differ"
		out = append(out, store.LogFault{Kind: store.FaultRoot, Position: root.Size,
			Found: "the hashes of the log do not add up to the root of the checkpoint"})
	}
	for _, leaf := range slices.Sorted(maps.Keys(differ)) {
		x := store.LogFault{Kind: kind, EventID: nameOf(differ[leaf].ID), Position: leaf + 1, Found: found}
		if differ[leaf].ID < 0 && kind == store.FaultChanged {
			x.Kind, x.Found = faultRemoval, "the record of removed events is not what was logged"
		}
		out = append(out, x)
	}
	return out
}

// compare compares leaves of the log with the rows of their events, and with the root.
func compare(tree *store.Tree, root store.LogRoot, rows map[int64]store.Compared) (faults []store.LogFault, unproved []int64, err error) {
	differ, unproved, err := tree.Differ(rows)
	at, sound, patched := slices.Sorted(maps.Keys(rows)), false, false
	if err == nil {
		sound, err = tree.Agrees(root, at)
	}
	if err == nil && !sound {
		patched, err = tree.With(differ).Agrees(root, at)
	}
	if err != nil {
		faults, err = cutOff(err)
		return faults, unproved, err
	}
	return judge(root, sound, patched, differ), unproved, nil
}

// cutOff returns the fault that an error stands for, or the error.
func cutOff(err error) ([]store.LogFault, error) {
	var cut *store.TileError
	if !errors.As(err, &cut) {
		return nil, err
	}
	return []store.LogFault{{Kind: faultTile, Position: cut.Leaf + 1, Found: cut.Error()}}, nil
}

// compare compares the events of the task that have leaves with the log.
func (v *TaskVerification) compare(ctx context.Context, tx store.Tx, tree *store.Tree, root store.LogRoot) error {
	s, err := store.ReadFeed(ctx, tx)
	if err != nil {
		return err
	}
	ids, err := tree.EventsOf(v.TaskID)
	if err != nil {
		return err
	}
	v.Events = len(ids)
	places, err := tree.Places(ids)
	if err != nil {
		return err
	}
	leaves, err := tree.Rows(ids)
	if err != nil {
		return err
	}
	rows := make(map[int64]store.Compared, len(ids))
	var strange []store.LogFault
	for _, id := range ids {
		at, placed := places[id]
		switch {
		case placed:
			rows[at] = store.Compared{ID: id, Leaf: leaves[id]}
			v.Logged++
			if at < root.Size {
				v.Signed++
			}
		case !s.Expects(id):
			strange = append(strange, inserted(id))
		}
	}
	faults, unproved, err := compare(tree, root, rows)
	v.Faults = append(append(v.Faults, faults...), strange...)
	for _, id := range unproved {
		v.Unproved = append(v.Unproved, eventID(id))
	}
	return err
}

func inserted(id int64) store.LogFault {
	return store.LogFault{Kind: faultInserted, EventID: eventID(id), Found: "the log has passed it and has no leaf for it"}
}
