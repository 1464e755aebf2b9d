package store

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"
)

var treeSQL = Texts(sqlFiles, "tree.sql")

const (
	// tileHeight is the height of a tile of the log, the number that tlog calls H.
	tileHeight = 8
	tileLeaves = 1 << tileHeight
	// looseRuns bounds the rows that hold the leaves of the last tile.
	looseRuns = 64
)

// appendLeaves adds leaf hashes after the first size leaves of the log. runs is the number of
// rows that hold the last tile; it returns the new number. The feed is locked.
func appendLeaves(ctx context.Context, tx Tx, size int64, runs int, leaves []tlog.Hash) (int, error) {
	if len(leaves) == 0 {
		return runs, nil
	}
	end := size + int64(len(leaves))
	if size/tileLeaves == end/tileLeaves && runs < looseRuns {
		_, err := tx.Exec(ctx, treeSQL["put run"], size, pack(leaves))
		return runs + 1, err
	}
	edge, err := lastTile(ctx, tx, size)
	if err != nil {
		return runs, err
	}
	if _, err := tx.Exec(ctx, treeSQL["remove runs"]); err != nil {
		return runs, err
	}
	data := append(edge, pack(leaves)...)
	n, complete := size/tileLeaves, len(data)/(tileLeaves*tlog.HashSize)
	if err := putTiles(ctx, tx, n, data[:complete*tileLeaves*tlog.HashSize]); err != nil {
		return runs, err
	}
	if data = data[complete*tileLeaves*tlog.HashSize:]; len(data) == 0 {
		return 0, nil
	}
	_, err = tx.Exec(ctx, treeSQL["put run"], end/tileLeaves*tileLeaves, data)
	return 1, err
}

// putTiles stores complete tiles from tile n on, and the roots that they complete.
func putTiles(ctx context.Context, tx Tx, n int64, data []byte) error {
	var rows [][]any
	for i := n; len(data) > 0; i++ {
		tile := data[:tileLeaves*tlog.HashSize]
		data = data[len(tile):]
		root := rootOf(unpack(tile))
		rows = append(rows, []any{0, i, root[:], tile})
	}
	for level := 0; len(rows) > 0; level++ {
		if err := tx.ExecEach(ctx, treeSQL["put tile"], rows); err != nil {
			return err
		}
		from, to := rows[0][1].(int64)/tileLeaves, (rows[len(rows)-1][1].(int64)+1)/tileLeaves
		rows = nil
		for i := from; i < to; i++ { // 256 rows are complete: their root is a row of the next level
			roots, err := rootsAt(ctx, tx, level, i*tileLeaves, tileLeaves)
			if err != nil {
				return err
			}
			root := rootOf(unpack(roots))
			rows = append(rows, []any{level + 1, i, root[:], nil})
		}
	}
	return nil
}

// lastTile reads the leaves of the incomplete last tile of a log of the given size.
func lastTile(ctx context.Context, tx Tx, size int64) ([]byte, error) {
	rows, err := tx.Query(ctx, treeSQL["runs"])
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []byte
	start := size / tileLeaves * tileLeaves
	for rows.Next() {
		var first int64
		var leaves []byte
		if err := rows.Scan(&first, &leaves); err != nil {
			return nil, err
		}
		if first != start+int64(len(out)/tlog.HashSize) || len(leaves)%tlog.HashSize != 0 {
			return nil, &TileError{Leaf: start + int64(len(out)/tlog.HashSize)}
		}
		out = append(out, leaves...)
	}
	if int64(len(out)/tlog.HashSize) != size-start && rows.Err() == nil {
		return nil, &TileError{Leaf: start + int64(len(out)/tlog.HashSize)}
	}
	return out, rows.Err()
}

func rootsAt(ctx context.Context, tx Tx, level int, first, count int64) ([]byte, error) {
	rows, err := tx.Query(ctx, treeSQL["roots"], level, first, first+count)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var out []byte
	for next := first; rows.Next(); next++ {
		var n int64
		var root []byte
		if err := rows.Scan(&n, &root); err != nil {
			return nil, err
		}
		if n != next || len(root) != tlog.HashSize {
			return nil, &TileError{Level: level, Leaf: next << (tileHeight * (level + 1))}
		}
		out = append(out, root...)
	}
	if got := int64(len(out) / tlog.HashSize); got != count && rows.Err() == nil {
		return nil, &TileError{Level: level, Leaf: (first + got) << (tileHeight * (level + 1))}
	}
	return out, rows.Err()
}

// rootOf returns the root of 256 hashes. It overwrites them.
func rootOf(hashes []tlog.Hash) tlog.Hash {
	for n := len(hashes); n > 1; n /= 2 {
		for i := range n / 2 {
			hashes[i] = tlog.NodeHash(hashes[2*i], hashes[2*i+1])
		}
	}
	return hashes[0]
}

func pack(hashes []tlog.Hash) []byte {
	out := make([]byte, 0, len(hashes)*tlog.HashSize)
	for i := range hashes {
		out = append(out, hashes[i][:]...)
	}
	return out
}

func unpack(data []byte) []tlog.Hash {
	out := make([]tlog.Hash, len(data)/tlog.HashSize)
	for i := range out {
		copy(out[i][:], data[i*tlog.HashSize:])
	}
	return out
}

// TileError says that hashes of the log are missing or cut off.
type TileError struct {
	Level int
	Leaf  int64 // the first leaf that is not there
}

// Error implements error.
func (e *TileError) Error() string {
	return fmt.Sprintf("the hashes of the log from leaf %d on are missing or damaged (level %d)", e.Leaf, e.Level)
}

// Tree reads the hashes of the log in one transaction. It is a tlog.HashReader and a
// tlog.TileReader. Size is the number of leaves. Hashes that are missing are a *TileError.
type Tree struct {
	Size int64
	ctx  context.Context
	tx   Tx
	seen map[tileName][]byte
	// patched are hashes that replace those of leaves; see With.
	patched map[int64]Compared
	failed  error // of ReadTiles
}

type tileName struct {
	level int
	n     int64
}

// ReadTree reads the size of the log.
func ReadTree(ctx context.Context, tx Tx) (*Tree, error) {
	s, err := ReadFeed(ctx, tx)
	return &Tree{Size: s.Position, ctx: ctx, tx: tx, seen: map[tileName][]byte{}}, err
}

// Height implements tlog.TileReader.
func (t *Tree) Height() int { return tileHeight }

// SaveTiles implements tlog.TileReader.
func (t *Tree) SaveTiles([]tlog.Tile, [][]byte) {}

// ReadTiles implements tlog.TileReader.
func (t *Tree) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, x := range tiles {
		data, err := t.tile(x)
		if err != nil {
			t.failed = err
			return nil, err
		}
		out[i] = data
	}
	return out, nil
}

// ReadHashes implements tlog.HashReader. It does not check the hashes against a root.
func (t *Tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		tile := tlog.TileForIndex(tileHeight, index)
		data, err := t.tile(tile)
		if err != nil {
			return nil, err
		}
		if out[i], err = tlog.HashFromTile(tile, data, index); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (t *Tree) tile(x tlog.Tile) (data []byte, err error) {
	name := tileName{x.L, x.N}
	if data = t.seen[name]; len(data) < x.W*tlog.HashSize {
		switch {
		case x.L > 0:
			data, err = rootsAt(t.ctx, t.tx, x.L-1, x.N*tileLeaves, int64(x.W))
		case x.N < t.Size/tileLeaves:
			data, err = t.leaves(x.N)
		default:
			data, err = lastTile(t.ctx, t.tx, t.Size)
		}
		if err != nil {
			return nil, err
		}
		if data, err = t.patch(x.L, x.N, data); err != nil {
			return nil, err
		}
		t.seen[name] = data
	}
	if len(data) < x.W*tlog.HashSize {
		return nil, &TileError{Level: x.L, Leaf: (x.N*tileLeaves + int64(len(data)/tlog.HashSize)) << (tileHeight * x.L)}
	}
	return data[:x.W*tlog.HashSize], nil
}

// With returns the tree with the hashes of rows in the place of leaves.
func (t *Tree) With(rows map[int64]Compared) *Tree {
	return &Tree{Size: t.Size, ctx: t.ctx, tx: t.tx, seen: map[tileName][]byte{}, patched: rows}
}

// patch replaces hashes of a tile that With has changed, and the roots of such tiles.
func (t *Tree) patch(level int, n int64, data []byte) ([]byte, error) {
	width := int64(1) << (tileHeight * level) // leaves below a hash of the tile
	done := map[int64]bool{}
	for leaf, r := range t.patched {
		hash := r.Leaf
		i := leaf/width - n*tileLeaves
		if i < 0 || i >= int64(len(data)/tlog.HashSize) || done[i] {
			continue
		}
		if level > 0 {
			done[i] = true
			below, err := t.tile(tlog.Tile{H: tileHeight, L: level - 1, N: n*tileLeaves + i, W: tileLeaves})
			if err != nil {
				return nil, err
			}
			hash = rootOf(unpack(below))
		}
		copy(data[i*tlog.HashSize:], hash[:])
	}
	return data, nil
}

func (t *Tree) leaves(n int64) ([]byte, error) {
	var data []byte
	_, err := Row(t.ctx, t.tx, []any{&data}, treeSQL["leaves of tile"], n)
	if err == nil && len(data) != tileLeaves*tlog.HashSize {
		err = &TileError{Leaf: n*tileLeaves + int64(len(data)/tlog.HashSize)}
	}
	return data, err
}

// Root returns the root of the first size leaves.
func (t *Tree) Root(size int64) (tlog.Hash, error) {
	if size > t.Size {
		return tlog.Hash{}, &TileError{Leaf: t.Size}
	}
	return tlog.TreeHash(size, t)
}

// Rows hashes the rows of events as they are now, by number. Events that do not exist are left out.
func (t *Tree) Rows(ids []int64) (map[int64]tlog.Hash, error) { return leaves(t.ctx, t.tx, ids) }

// Places returns the leaves of events, by number. Events that have no position yet are left out.
func (t *Tree) Places(ids []int64) (map[int64]int64, error) { return leafIndexes(t.ctx, t.tx, ids) }

// EventsOf returns the numbers of the events of a task.
func (t *Tree) EventsOf(taskID string) ([]int64, error) {
	return Ints(t.ctx, t.tx, treeSQL["numbers of task"], TaskID(taskID))
}

// Pages reads up to limit pages of the log, from the one that has a position on.
func (t *Tree) Pages(position int64, limit int) ([]FeedPage, error) {
	return pagesOf(t.ctx, t.tx, treeSQL["pages of log"], position, limit)
}

// Removal reads a record of removed events.
func (t *Tree) Removal(id int64) (Removal, bool, error) { return readRemoval(t.ctx, t.tx, id) }

// EachWaiting passes the records of removed events that are not in the log yet to fn, in order.
func (t *Tree) EachWaiting(fn func(Removal) error) error { return eachWaiting(t.ctx, t.tx, fn) }
