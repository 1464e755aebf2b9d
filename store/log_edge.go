package store

import (
	"context"
	"encoding/base64"
	"math/bits"

	"golang.org/x/mod/sumdb/tlog"
)

// Edge is the right edge of the log's tree: the roots of the complete trees that its leaves
// make up, the largest first. The root of the log follows from it without a read. The zero
// value is the edge of no leaves.
type Edge struct {
	size   int64
	hashes []tlog.Hash
}

// add adds a leaf.
func (g *Edge) add(leaf tlog.Hash) {
	for n := g.size; n&1 == 1; n >>= 1 {
		last := len(g.hashes) - 1
		leaf = tlog.NodeHash(g.hashes[last], leaf)
		g.hashes = g.hashes[:last]
	}
	g.hashes = append(g.hashes, leaf)
	g.size++
}

// with adds leaves and returns the root.
func (g *Edge) with(leaves []tlog.Hash) string {
	for _, leaf := range leaves {
		g.add(leaf)
	}
	return g.root()
}

// root returns the root as FeedState.Root has it; "" without leaves.
func (g *Edge) root() string {
	if len(g.hashes) == 0 {
		return ""
	}
	root := g.hashes[len(g.hashes)-1]
	for i := len(g.hashes) - 2; i >= 0; i-- {
		root = tlog.NodeHash(g.hashes[i], root)
	}
	return textOfRoot(root)
}

func textOfRoot(root tlog.Hash) string { return base64.StdEncoding.EncodeToString(root[:]) }

// become makes g the edge of a log. It reads it, unless g is that already.
func (g *Edge) become(ctx context.Context, tx Tx, s *FeedState) error {
	if g.size == s.Position && s.Root != "" && g.root() == s.Root {
		return nil
	}
	tree := &Tree{Size: s.Position, ctx: ctx, tx: tx, seen: map[tileName][]byte{}}
	var indexes []int64
	for left, start := s.Position, int64(0); left > 0; {
		level := bits.Len64(uint64(left)) - 1
		indexes = append(indexes, tlog.StoredHashIndex(level, start>>level))
		start, left = start+1<<level, left-1<<level
	}
	hashes, err := tree.ReadHashes(indexes)
	g.size, g.hashes = s.Position, hashes
	return err
}

// RootOfFirst returns the root of the first size leaves of the log, as FeedState.Root has it; "" if
// the log has fewer.
func RootOfFirst(ctx context.Context, tx Tx, size int64) (string, error) {
	tree, err := ReadTree(ctx, tx)
	if err != nil || size > tree.Size || size <= 0 {
		return "", err
	}
	root, err := tree.Root(size)
	return textOfRoot(root), err
}
