package archives

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strconv"

	"github.com/pawl-work/pawl/store"
)

// eventNumber finds the number of an event in a line of an archive. Texts in front of it have no quotes without a
// backslash.
var eventNumber = regexp.MustCompile(`^\{"table":"(?:task_events","id"|provenances".*?,"event_id"):(\d+)`)

// Renumber gives the events of an archive, or of a segment with these contents, the numbers that number returns for
// theirs, for a database where theirs are of other events. The proofs are left out: that database has no leaf of the
// events before a task is restored.
func (s *Keeper) Renumber(body, contents []byte, number func(ids []int64) (map[int64]int64, error)) (g store.Segment, err error) {
	in := store.Segment{Body: body}
	if contents == nil {
		in.EndFrame(0, nil)
	} else if err := in.Unpack(contents); err != nil {
		return g, err
	}
	zip, err := s.frameEncoder()
	if err != nil {
		return g, err
	}
	defer s.frames.Put(zip)
	for _, f := range in.Frames {
		if f.Size > int64(len(body)) {
			return g, errNoFrame
		}
		plain, err := renumbered(body[:f.Size], number)
		if err != nil {
			return g, err
		}
		body = body[f.Size:]
		addFrame(&g, zip, plain, f.Tasks)
	}
	sum := sha256.Sum256(g.Body)
	g.Bytes, g.SHA256 = int64(len(g.Body)), hex.EncodeToString(sum[:])
	return g, nil
}

func renumbered(frame []byte, number func(ids []int64) (map[int64]int64, error)) (plain []byte, err error) {
	var lines [][]byte
	var ids []int64
	err = linesOf(frame, func(line []byte) error {
		switch {
		case store.EndsArchive(line):
			return nil
		case store.EndsSegment(line):
			if line, err = unproved(line); err != nil {
				return err
			}
		}
		if at := eventNumber.FindSubmatchIndex(line); at != nil {
			id, err := strconv.ParseInt(string(line[at[2]:at[3]]), 10, 64)
			if err != nil {
				return err
			}
			ids = append(ids, id)
		}
		lines = append(lines, line)
		return nil
	}, func(err error) error { return err })
	if err != nil {
		return nil, err
	}
	slices.Sort(ids)
	now, err := number(slices.Compact(ids))
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		if at := eventNumber.FindSubmatchIndex(line); at != nil {
			id, _ := strconv.ParseInt(string(line[at[2]:at[3]]), 10, 64) // it is one
			plain = strconv.AppendInt(append(plain, line[:at[2]]...), now[id], 10)
			line = line[at[3]:]
		}
		plain = append(plain, line...)
	}
	return plain, nil
}

// unproved returns the last line of a segment without its proofs.
func unproved(line []byte) ([]byte, error) {
	var l store.SegmentLog
	if err := json.Unmarshal(line, &l); err != nil {
		return nil, errors.Join(errFrame, err)
	}
	line, err := json.Marshal(&store.SegmentLog{
		Table: l.Table, Tasks: l.Tasks, Counts: make([]int, len(l.Counts)), Events: store.Pack(nil), Leaves: store.Pack(nil),
	})
	return append(line, '\n'), err
}
