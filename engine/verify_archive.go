package engine

import (
	"encoding/base64"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/sweep"
	"github.com/pawl-work/pawl/translog"
)

// ArchiveVerification is the result of VerifyArchive.
type ArchiveVerification struct {
	TaskID    string `json:"task_id"` // of a segment, its first task
	Tasks     int    `json:"tasks"`
	Namespace string `json:"namespace"`
	Intact    bool   `json:"intact"`
	Events    int    `json:"events"` // in the archive
	Proved    int    `json:"proved"` // of those, proved to be under the checkpoint
	// Checkpoint is the signed state that the archive has; nil = none that one of the keys has
	// signed.
	Checkpoint *LogCheckpoint `json:"checkpoint,omitempty"`
	Faults     []LogFault     `json:"faults"`
	// Unproved are events whose inputs and results are in the archive, and are not proved: they
	// were gone when the event was logged. That is no fault: see LogVerification.
	Unproved []string `json:"unproved_values,omitempty"`
}

// verifySegment is VerifyArchive for the file of a segment.
func verifySegment(file string, keys []string) (ArchiveVerification, error) {
	v := ArchiveVerification{Faults: []LogFault{}}
	var s store.SegmentReader
	if err := sweep.ReadArchive(file, s.Line); err != nil {
		return v, &pawl.Error{Code: pawl.CodeInvalid, Op: "verify", Message: "the segment cannot be read: " + err.Error(), Err: err}
	}
	v.Tasks = len(s.Tasks)
	if v.Tasks > 0 {
		v.TaskID, v.Namespace = s.Tasks[0].TaskID, s.Tasks[0].Namespace
	}
	c, err := translog.Open(s.Log.Checkpoint, keys)
	if err != nil {
		v.Faults = append(v.Faults, LogFault{Kind: store.FaultRoot,
			Found: "the segment has no checkpoint that one of the given keys has signed: " + err.Error()})
	} else {
		v.Checkpoint = &LogCheckpoint{Origin: c.Origin, Size: c.Size, Root: base64.StdEncoding.EncodeToString(c.Root[:]), Note: s.Log.Checkpoint}
	}
	var faults []LogFault
	v.Events, v.Proved, faults = s.Check(store.LogRoot{Size: c.Size, Root: c.Root})
	for _, a := range s.Tasks {
		v.Unproved = append(v.Unproved, a.Unproved...)
	}
	v.Faults = append(v.Faults, faults...)
	v.Intact = len(v.Faults) == 0
	return v, nil
}

// VerifyArchive proves that the events of the file of an archive, or of a segment, are in the transparency log, under
// the checkpoint that the archive has. It proves inclusion, not completeness: an event that was
// removed together with its place in the last line is not missed. It needs no database. keys are
// the public keys of which one must have signed the checkpoint; a text of several, one a line,
// is several keys.
func VerifyArchive(file string, keys []string) (ArchiveVerification, error) {
	v := ArchiveVerification{Faults: []LogFault{}}
	keys, err := translog.Verifiers(keys)
	if err != nil {
		return v, &pawl.Error{Code: pawl.CodeInvalid, Op: "verify", Message: err.Error(), Err: err}
	}
	segment := false
	err = sweep.ReadArchive(file, func(line []byte) error {
		segment = segment || store.EndsSegment(line)
		return nil
	})
	if err == nil && segment {
		return verifySegment(file, keys)
	}
	var a store.ArchiveReader
	if err == nil {
		err = sweep.ReadArchive(file, a.Line)
	}
	if err != nil {
		return v, &pawl.Error{Code: pawl.CodeInvalid, Op: "verify", Message: "the archive cannot be read: " + err.Error(), Err: err}
	}
	v.Tasks = 1
	v.TaskID, v.Namespace, v.Events = a.TaskID, a.Namespace, a.Events()
	v.Faults = append(v.Faults, a.Faults()...)
	noProof := func(found string) (ArchiveVerification, error) {
		v.Faults = append(v.Faults, LogFault{Kind: store.FaultRoot, Found: found})
		return v, nil
	}
	if a.Log == nil || a.Log.Checkpoint == "" {
		return noProof("the archive has no checkpoint: the log had none when it was written")
	}
	c, err := translog.Open(a.Log.Checkpoint, keys)
	if err != nil {
		return noProof("the checkpoint of the archive is signed with none of the given keys: " + err.Error())
	}
	v.Checkpoint = &LogCheckpoint{Origin: c.Origin, Size: c.Size, Root: base64.StdEncoding.EncodeToString(c.Root[:]), Note: a.Log.Checkpoint}
	var faults []LogFault
	v.Proved, faults = a.Check(store.LogRoot{Size: c.Size, Root: c.Root})
	v.Faults, v.Unproved = append(v.Faults, faults...), a.Unproved
	v.Intact = len(v.Faults) == 0
	return v, nil
}
