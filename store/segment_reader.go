package store

import (
	"bytes"
	"fmt"
)

// SegmentReader reads the archives of a segment, without a database, as ArchiveReader reads one.
type SegmentReader struct {
	Tasks  []*ArchiveReader
	Log    *Segmented // nil = the last line was not read
	faults []LogFault
}

// BeginsArchive returns the task whose archive begins with a line.
func BeginsArchive(line []byte) (taskID string, begins bool) {
	rest, is := bytes.CutPrefix(line, []byte(`{"table":"tasks","id":"`))
	if !is {
		return "", false
	}
	id, _, _ := bytes.Cut(rest, []byte(`"`))
	return string(id), true
}

// EndsArchive says whether a line is the last one of an archive, with its proofs.
func EndsArchive(line []byte) bool {
	return bytes.HasPrefix(line, []byte(`{"table":"`+logLine+`",`))
}

// EndsSegment says whether a line is the last one of a segment.
func EndsSegment(line []byte) bool {
	return bytes.HasPrefix(line, []byte(`{"table":"`+segmentLine+`",`))
}

// Line reads the next line.
func (s *SegmentReader) Line(line []byte) error {
	switch _, begins := BeginsArchive(line); {
	case s.Log != nil:
		s.refuse("there is a row behind the last line of the segment")
		return nil
	case EndsSegment(line):
		return s.end(line)
	case begins || len(s.Tasks) == 0:
		s.Tasks = append(s.Tasks, &ArchiveReader{})
	}
	return s.Tasks[len(s.Tasks)-1].Line(line)
}

// end gives each task its last line.
func (s *SegmentReader) end(line []byte) (err error) {
	if s.Log, err = ReadSegmented(line); err != nil {
		return err
	}
	there := map[string]bool{}
	for _, a := range s.Tasks {
		if there[a.TaskID] {
			s.refuse("the segment has %s twice", a.TaskID)
		}
		there[a.TaskID] = true
		own, err := s.Log.Line(a.TaskID)
		switch {
		case err != nil:
			s.refuse("%v", err)
		case own != nil:
			if err := a.Line(own); err != nil {
				return err
			}
		}
	}
	for _, id := range s.Log.Tasks {
		if id != "" && !there[id] {
			s.faults = append(s.faults, LogFault{Kind: FaultMissing, Found: "the segment names " + id + ", and does not have it"})
		}
	}
	return nil
}

func (s *SegmentReader) refuse(format string, args ...any) {
	s.faults = append(s.faults, LogFault{Kind: FaultRow, Found: fmt.Sprintf(format, args...)})
}

// Check compares the events of all tasks with the proofs under a root. It returns their number, and how many are proved.
func (s *SegmentReader) Check(root LogRoot) (events, proved int, faults []LogFault) {
	faults = s.faults
	for _, a := range s.Tasks {
		events += a.Events()
		faults = append(faults, a.Faults()...)
		if a.Log == nil || a.Log.Checkpoint == "" {
			if a.Events() > 0 {
				faults = append(faults, LogFault{Kind: FaultUnproved, Found: "the segment has no proof of the events of " + a.TaskID})
			}
			continue
		}
		n, some := a.Check(root)
		proved, faults = proved+n, append(faults, some...)
	}
	return events, proved, faults
}
