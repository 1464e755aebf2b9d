package archives

import (
	"encoding/base64"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/translog"
)

// Verification is the result of engine.VerifyArchive.
type Verification struct {
	TaskID    string `json:"task_id"` // of a segment, its first task
	Tasks     int    `json:"tasks"`
	Namespace string `json:"namespace"`
	Intact    bool   `json:"intact"`
	Events    int    `json:"events"` // in the archive
	Proved    int    `json:"proved"` // of those, proved to be under the checkpoint
	// Checkpoint is the signed state that the archive has; nil = none that counts: one of
	// the keys must have signed it, and the witnesses cosigned.
	Checkpoint *pawl.LogCheckpoint `json:"checkpoint,omitempty"`
	Faults     []store.LogFault    `json:"faults"`
	// Unproved are events whose inputs and results are in the archive, and are not proved: they
	// were gone when the event was logged. That is no fault: see LogVerification.
	Unproved []string `json:"unproved_values,omitempty"`
}

// Verify proves the events of the file of an archive, or of a segment: see engine.VerifyArchive.
func Verify(file string, trust translog.Trust) (Verification, error) {
	v := Verification{Faults: []store.LogFault{}}
	_, err := translog.Verifiers(trust.Keys)
	if err == nil {
		trust, err = trust.Check()
	}
	if err != nil {
		return v, &pawl.Error{Code: pawl.CodeInvalid, Op: "verify", Message: err.Error(), Err: err}
	}
	segment := false
	err = readFile(file, func(line []byte) error {
		segment = segment || store.EndsSegment(line)
		return nil
	})
	var a store.ArchiveReader
	var s store.SegmentReader
	switch {
	case err != nil:
	case segment:
		err = readFile(file, s.Line)
	default:
		err = readFile(file, a.Line)
	}
	switch {
	case err != nil:
		return v, &pawl.Error{Code: pawl.CodeInvalid, Op: "verify", Message: "the archive cannot be read: " + err.Error(), Err: err}
	case segment:
		v.ofSegment(&s, trust)
	default:
		v.ofTask(&a, trust)
	}
	v.Intact = len(v.Faults) == 0
	return v, nil
}

func (v *Verification) ofSegment(s *store.SegmentReader, trust translog.Trust) {
	if v.Tasks = len(s.Tasks); v.Tasks > 0 {
		v.TaskID, v.Namespace = s.Tasks[0].TaskID, s.Tasks[0].Namespace
	}
	root, _ := v.under(s.Log.Checkpoint, trust)
	var faults []store.LogFault
	v.Events, v.Proved, faults = s.Check(root)
	for _, a := range s.Tasks {
		v.Unproved = append(v.Unproved, a.Unproved...)
	}
	v.Faults = append(v.Faults, faults...)
}

func (v *Verification) ofTask(a *store.ArchiveReader, trust translog.Trust) {
	v.Tasks, v.TaskID, v.Namespace, v.Events = 1, a.TaskID, a.Namespace, a.Events()
	v.Faults = append(v.Faults, a.Faults()...)
	note := ""
	if a.Log != nil {
		note = a.Log.Checkpoint
	}
	if root, signed := v.under(note, trust); signed {
		var faults []store.LogFault
		v.Proved, faults = a.Check(root)
		v.Faults, v.Unproved = append(v.Faults, faults...), a.Unproved
	}
}

// under takes the checkpoint of the archive, if it counts.
func (v *Verification) under(note string, trust translog.Trust) (root store.LogRoot, counts bool) {
	why := "the archive has no checkpoint: the log had none when it was written"
	if note != "" {
		c, err := trust.Open(note)
		if err == nil {
			v.Checkpoint = &pawl.LogCheckpoint{Origin: c.Origin, Size: c.Size, Root: base64.StdEncoding.EncodeToString(c.Root[:]), Note: note}
			return store.LogRoot{Size: c.Size, Root: c.Root}, true
		}
		why = "the checkpoint of the archive does not count: " + err.Error()
	}
	v.Faults = append(v.Faults, store.LogFault{Kind: store.FaultRoot, Found: why})
	return root, false
}
