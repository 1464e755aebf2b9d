package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/pawl-work/pawl"
)

// LogRestored records that the events of a task were restored, after a check that they are
// what was logged. Events that the log has passed without them, because the task was in its
// archive then, are added to it. An event that the archive itself proves to be in the log is
// not compared with it; the others are. The feed is locked after the comparison, which takes long for many events.
func (r *Restorer) LogRestored(ctx context.Context, tx Tx, signed SignedRoot) error {
	ids, err := Ints(ctx, tx, treeSQL["numbers of task"], TaskID(r.TaskID))
	if err != nil {
		return err
	}
	return logRestored(ctx, tx, r.TaskID, ids, signed, r.Log)
}

// logRestored is LogRestored for some of the events.
func logRestored(ctx context.Context, tx Tx, taskID string, ids []int64, signed SignedRoot, archive *ArchiveLog) error {
	proved, err := provedByArchive(ctx, tx, signed, archive)
	if err != nil {
		return err
	}
	places, err := leafIndexes(ctx, tx, ids)
	if err != nil {
		return err
	}
	before := places // leaves do not change
	err = asLogged(ctx, tx, taskID, signed.LogRoot, unproved(places, proved), places)
	if pawl.CodeOf(err) == pawl.CodeInternal { // the log may have grown meanwhile: it is compared again
		before = nil
	} else if err != nil {
		return err
	}
	s, err := LockFeed(ctx, tx)
	s.Edge = new(Edge)
	if err != nil {
		return err
	}
	ids = slices.DeleteFunc(ids, s.Expects)
	if places, err = leafIndexes(ctx, tx, ids); err != nil {
		return err
	}
	var placed, passed []int64
	for _, id := range ids {
		if _, found := places[id]; found {
			placed = append(placed, id)
		} else {
			passed = append(passed, id)
		}
	}
	left := slices.DeleteFunc(unproved(places, proved), func(id int64) bool {
		at, found := before[id]
		return found && at == places[id]
	})
	if err := asLogged(ctx, tx, taskID, signed.LogRoot, left, places); err != nil {
		return err
	}
	now, err := tx.Now(ctx)
	if err != nil {
		return err
	}
	if len(placed) > 0 {
		if _, err := tx.Exec(ctx, treeSQL["put removal"], Pack(placed), 1, now, totals{}.text()); err != nil {
			return err
		}
	}
	if err := s.countRestored(ctx, tx, taskID, ids); err != nil || len(passed) == 0 {
		return err
	}
	return place(ctx, tx, &s, passed, nil) // they happened elsewhere: they are not counted
}

// unproved returns the events, in order, whose leaves are not those that an archive proves.
func unproved(places, proved map[int64]int64) []int64 {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(places)), func(id int64) bool {
		at, found := proved[id]
		return found && at == places[id]
	})
}

// provedByArchive returns the leaves of restored events that their archive proves to be in the
// log, under a checkpoint that a known key has signed.
func provedByArchive(ctx context.Context, tx Tx, signed SignedRoot, archive *ArchiveLog) (map[int64]int64, error) {
	if archive == nil || archive.Checkpoint == "" || signed.Open == nil {
		return nil, nil
	}
	root, known := signed.Open(archive.Checkpoint)
	if !known {
		return nil, nil
	}
	leaves, err := leaves(ctx, tx, archive.Events)
	if err != nil {
		return nil, err
	}
	bare, err := bareLeaves(ctx, tx, archive.Events)
	if err != nil {
		return nil, err
	}
	older, err := olderLeaves(ctx, tx, archive.Events)
	if err != nil {
		return nil, err
	}
	return archive.Proved(root, func(id int64) []tlog.Hash { return append(older[id], leaves[id], bare[id]) }), nil
}

// asLogged compares restored events with their leaves, tile by tile. An event that differs
// from its leaf is an error, unless the root says that the leaf was changed: then the archive
// is what was logged, and a check of the log names the leaf. Hashes of the log that are missing
// prove nothing, and keep nothing from being restored.
func asLogged(ctx context.Context, tx Tx, taskID string, root LogRoot, ids []int64, places map[int64]int64) error {
	if len(ids) == 0 {
		return nil
	}
	tree, err := ReadTree(ctx, tx)
	if err != nil {
		return err
	}
	leaves, err := leaves(ctx, tx, ids)
	if err != nil {
		return err
	}
	tiles := map[int64]map[int64]Compared{}
	for id, leaf := range leaves {
		at := places[id]
		if tiles[at/tileLeaves] == nil {
			tiles[at/tileLeaves] = map[int64]Compared{}
		}
		tiles[at/tileLeaves][at] = Compared{id, leaf}
	}
	for _, n := range slices.Sorted(maps.Keys(tiles)) {
		differ, sound, err := tree.disproved(root, n, tiles[n])
		var cut *TileError
		if err != nil && !errors.As(err, &cut) {
			return err
		}
		if len(differ) > 0 {
			return damaged(taskID, notLogged(differ, sound))
		}
	}
	return nil
}

// notLogged names rows that differ from their leaves. sound says that the log is the one that
// was signed; otherwise some of the leaves may have been changed, and not the rows.
func notLogged(differ map[int64]Compared, sound bool) error {
	at := slices.Sorted(maps.Keys(differ))
	if sound {
		return fmt.Errorf("event %s is not what was logged at position %d", eventID(differ[at[0]].ID), at[0]+1)
	}
	ids := make([]string, len(at))
	for i, leaf := range at {
		ids[i] = eventID(differ[leaf].ID)
	}
	return fmt.Errorf("the log was changed, and one or more of these events are not what was logged: %s", strings.Join(ids, ", "))
}

// disproved returns the rows of a tile that differ from their leaves, unless the root proves
// that the rows are what was logged: it agrees with their hashes in the place of the leaves.
// Other leaves of the tile may have been changed too, so the hashes of their rows are tried as
// well. A leaf without the digest of a value that is there is what was logged, and stays: see
// Tree.Differ. sound says that the root agrees with the leaves.
func (t *Tree) disproved(root LogRoot, n int64, rows map[int64]Compared) (differ map[int64]Compared, sound bool, err error) {
	at := slices.Sorted(maps.Keys(rows))
	if differ, _, err = t.Differ(rows); err != nil || len(differ) == 0 {
		return nil, false, err
	}
	if sound, err = t.Agrees(root, at); err != nil || sound {
		return differ, sound, err
	}
	if proved, err := t.With(differ).Agrees(root, at); err != nil || proved {
		return nil, false, err
	}
	others, err := t.rowsOfTile(n)
	if err != nil {
		return nil, false, err
	}
	if others, _, err = t.Differ(others); err != nil {
		return nil, false, err
	}
	maps.Copy(others, differ)
	if proved, err := t.With(others).Agrees(root, at); err != nil || proved {
		return nil, false, err
	}
	return differ, false, nil
}

// rowsOfTile returns the rows that a tile has leaves of, by leaf.
func (t *Tree) rowsOfTile(n int64) (map[int64]Compared, error) {
	out := map[int64]Compared{}
	for next, end := n*tileLeaves, min((n+1)*tileLeaves, t.Size); next < end; {
		pages, err := t.Pages(next+1, LoosePages)
		if err != nil {
			return nil, err
		}
		was := next
		for _, p := range pages {
			if cut := next + 1 - p.First; cut < 0 || cut >= int64(len(p.IDs)) {
				continue
			} else if cut > 0 {
				p.First, p.IDs = next+1, p.IDs[cut:]
			}
			ids := p.IDs[:min(int64(len(p.IDs)), end-next)]
			rows, err := t.Rows(ids)
			if err != nil {
				return nil, err
			}
			for i, id := range ids {
				if leaf, there := rows[id]; there {
					out[next+int64(i)] = Compared{id, leaf}
				}
			}
			next += int64(len(ids))
		}
		if next == was { // a page is missing
			return out, nil
		}
	}
	return out, nil
}
