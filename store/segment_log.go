package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"
)

// segmentLine is the table that the last line of a segment names.
const segmentLine = "segment"

// SegmentLog is the last line of a segment: what the last line of an archive is for one task, for all its
// tasks together, with one proof. The hashes that an event's proof needs are those of Nodes, or follow
// from them and from the leaves of the others.
type SegmentLog struct {
	Table string `json:"table"`
	// Tasks are the ids, 16 bytes each, in the order of their archives, and zeros for a task that was
	// deleted from the segment. Counts has the number of events of each.
	Tasks  []byte `json:"tasks"`
	Counts []int  `json:"counts"`
	Events []byte `json:"events"` // their numbers, as Pack writes them
	Leaves []byte `json:"leaves"` // the index of each one's leaf
	// Checkpoint is signed. Hashes has the hash of each leaf that is below its size, in the order of
	// the leaves, and behind them those of Nodes. These are numbers as tlog.StoredHashIndex has them.
	Checkpoint string `json:"checkpoint,omitempty"`
	Nodes      []byte `json:"nodes,omitempty"`
	Hashes     []byte `json:"hashes,omitempty"`
}

// ErrNotProved means that the log is not the one that was signed, where it has the events of a segment.
var ErrNotProved = errors.New("the events of the segment cannot be proved together")

// ReadSegmentLog returns the last line of the segment of tasks, which are in order and have these events.
func ReadSegmentLog(ctx context.Context, tx Tx, signed SignedRoot, taskIDs []string, of map[string][]int64) (*SegmentLog, error) {
	var all []int64
	for _, id := range taskIDs {
		all = append(all, of[id]...)
	}
	slices.Sort(all)
	places, err := leafIndexes(ctx, tx, all)
	if err != nil {
		return nil, err
	}
	out := &SegmentLog{Table: segmentLine, Counts: make([]int, len(taskIDs)), Tasks: make([]byte, 0, 16*len(taskIDs))}
	events, leaves := make([]int64, 0, len(all)), make([]int64, 0, len(all))
	for i, id := range taskIDs {
		b, _ := TaskID(id).Bytes()
		out.Tasks = append(out.Tasks, b[:]...)
		slices.Sort(of[id])
		for _, event := range of[id] {
			if at, placed := places[event]; placed {
				out.Counts[i]++
				events, leaves = append(events, event), append(leaves, at)
			}
		}
	}
	out.Events, out.Leaves = Pack(events), Pack(leaves)
	if signed.Size == 0 || len(leaves) == 0 {
		return out, nil
	}
	return out, out.prove(ctx, tx, signed.over(leaves), leaves)
}

// prove adds the proof of the leaves.
func (l *SegmentLog) prove(ctx context.Context, tx Tx, signed SignedRoot, leaves []int64) error {
	below := slices.DeleteFunc(slices.Clone(leaves), func(leaf int64) bool { return leaf >= signed.Size })
	nodes := nodesBeside(below, signed.Size)
	needed := append(storedLeaves(below), nodes...)
	hashes, err := checkedHashes(ctx, tx, signed.LogRoot, func(from tlog.HashReader) error {
		_, err := from.ReadHashes(needed)
		return err
	})
	if errors.Is(err, errNotUnderRoot) {
		return fmt.Errorf("%w: %w", ErrNotProved, err)
	}
	if err != nil {
		return err
	}
	l.Checkpoint, l.Nodes = signed.Note, Pack(nodes)
	l.Hashes = make([]byte, 0, len(needed)*tlog.HashSize)
	for _, index := range needed {
		h := hashes[index]
		l.Hashes = append(l.Hashes, h[:]...)
	}
	return nil
}

// nodesBeside returns the hashes, as stored indexes, that lead from some leaves to the root of a log of a
// size, and do not follow from the leaves: those of the largest trees that have none of them.
func nodesBeside(leaves []int64, size int64) (out []int64) {
	sorted := slices.Clone(leaves)
	slices.Sort(sorted)
	var visit func(level int, n int64, in []int64)
	visit = func(level int, n int64, in []int64) {
		switch {
		case len(in) == 0:
			out = append(out, tlog.StoredHashIndex(level, n))
		case level > 0:
			middle, _ := slices.BinarySearch(in, (2*n+1)<<(level-1))
			visit(level-1, 2*n, in[:middle])
			visit(level-1, 2*n+1, in[middle:])
		}
	}
	for level, from := 62, int64(0); level >= 0; level-- { // the complete trees that the log consists of
		if size&(1<<level) == 0 {
			continue
		}
		end, _ := slices.BinarySearch(sorted, from+1<<level)
		visit(level, from>>level, sorted[:end])
		sorted, from = sorted[end:], from+1<<level
	}
	return out
}

// Segmented is a SegmentLog that is ready for use.
type Segmented struct {
	Tasks      []string // "" = deleted
	Checkpoint string
	events     [][]int64
	leaves     [][]int64
	known      knownHashes
	size       int64
}

// ReadSegmented reads the last line of a segment.
func ReadSegmented(line []byte) (*Segmented, error) {
	var l SegmentLog
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, err
	}
	return l.read()
}

// read checks the line. The checkpoint is not: what it proves counts only under a root that is known.
func (l *SegmentLog) read() (*Segmented, error) {
	events, leaves, nodes, size := Unpack(l.Events), Unpack(l.Leaves), Unpack(l.Nodes), sizeIn(l.Checkpoint)
	total := 0
	for _, n := range l.Counts {
		if total += n; n < 0 || total > len(events) {
			return nil, errors.New("the last line of the segment counts more events than it has")
		}
	}
	if len(l.Tasks) != 16*len(l.Counts) || total != len(events) || len(events) != len(leaves) || len(l.Hashes)%tlog.HashSize != 0 {
		return nil, errors.New("the lists of the last line of the segment differ in length")
	}
	out := &Segmented{Checkpoint: l.Checkpoint, size: size, known: knownHashes{}}
	for i, n := range l.Counts {
		task := ""
		if b := [16]byte(l.Tasks[16*i:]); b != [16]byte{} {
			task = formatID(taskPrefix, b)
		}
		out.Tasks = append(out.Tasks, task)
		out.events, out.leaves = append(out.events, events[:n]), append(out.leaves, leaves[:n])
		events, leaves = events[n:], leaves[n:]
	}
	if size == 0 {
		return out, nil
	}
	below := slices.DeleteFunc(Unpack(l.Leaves), func(leaf int64) bool { return leaf >= size || leaf < 0 })
	indexes := append(storedLeaves(below), nodes...)
	if len(indexes)*tlog.HashSize != len(l.Hashes) {
		return nil, errors.New("the last line of the segment has too few or too many hashes")
	}
	for i, index := range indexes {
		if index < 0 {
			return nil, errors.New("the last line of the segment has a hash without a place")
		}
		out.known[index] = tlog.Hash(l.Hashes[i*tlog.HashSize:])
	}
	out.known.grow()
	return out, nil
}

// sizeIn returns the size that a checkpoint says in its second line; 0 = it says none.
func sizeIn(checkpoint string) int64 {
	lines := strings.SplitN(checkpoint, "\n", 3)
	if len(lines) < 3 {
		return 0
	}
	size, err := strconv.ParseInt(lines[1], 10, 64)
	if err != nil || size < 0 {
		return 0
	}
	return size
}

// grow adds the hashes that follow from those that are there.
func (k knownHashes) grow() {
	var level []int64 // the numbers of the hashes of a level
	higher := map[int][]int64{}
	most := 0
	for index := range k {
		at, n := tlog.SplitStoredHashIndex(index)
		higher[at] = append(higher[at], n)
		most = max(most, at)
	}
	for at := 0; at <= most || len(level) > 1; at++ {
		level = append(level, higher[at]...)
		slices.Sort(level)
		level = slices.Compact(level)
		var next []int64
		for i := 1; i < len(level); i++ {
			if left := level[i-1]; left%2 == 0 && level[i] == left+1 {
				parent := tlog.StoredHashIndex(at+1, left/2)
				if _, there := k[parent]; !there {
					k[parent] = tlog.NodeHash(k[tlog.StoredHashIndex(at, left)], k[tlog.StoredHashIndex(at, left+1)])
				}
				next = append(next, left/2)
			}
		}
		level = next
	}
}

// Of returns the last line that a task's archive would have by itself; nil = the log had none of its events.
func (s *Segmented) Of(taskID string) (*ArchiveLog, error) {
	i := slices.Index(s.Tasks, taskID)
	if i < 0 {
		return nil, fmt.Errorf("the last line of the segment does not name %s", taskID)
	}
	if len(s.events[i]) == 0 {
		return nil, nil
	}
	l := &ArchiveLog{Table: logLine, Events: s.events[i], Leaves: s.leaves[i]}
	if s.Checkpoint == "" || s.size == 0 {
		return l, nil
	}
	whole := true
	proofs, err := l.proofs(s.size, tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		for _, index := range indexes {
			_, there := s.known[index]
			whole = whole && there
		}
		return s.known.ReadHashes(indexes)
	}))
	if err = cmp.Or(err, errIf(!whole, "the last line of the segment lacks hashes")); err != nil {
		return nil, err
	}
	l.Checkpoint = s.Checkpoint
	l.keep(proofs)
	return l, nil
}

// Line is Of as the line of an archive; nil = it has none.
func (s *Segmented) Line(taskID string) ([]byte, error) {
	l, err := s.Of(taskID)
	if err != nil || l == nil {
		return nil, err
	}
	return json.Marshal(l)
}

// Forget removes a task's id from the line. The hashes of its events stay: others' proofs need them.
func (l *SegmentLog) Forget(taskID string) {
	b, _ := TaskID(taskID).Bytes()
	for i := 0; i+16 <= len(l.Tasks); i += 16 {
		if [16]byte(l.Tasks[i:]) == b {
			clear(l.Tasks[i : i+16])
		}
	}
}

func errIf(failed bool, text string) error {
	if failed {
		return errors.New(text)
	}
	return nil
}
