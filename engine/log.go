package engine

import (
	"context"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/logs"
	"github.com/pawl-work/pawl/store"
	"github.com/pawl-work/pawl/store/sqlite"
	"github.com/pawl-work/pawl/translog"
)

// keyBeside is the suffix of the signing key's file that belongs to a SQLite file.
const keyBeside = ".logkey"

// LogOptions configure who signs the transparency log. The zero value works.
type LogOptions struct {
	// Key is the file of the signing key. It is made when Run first signs. "" = beside a
	// SQLite database, and none for PostgreSQL: this process then signs nothing, and the log
	// is written all the same.
	Key string
	// Send is called with each new checkpoint that Run has signed; nil = not called. When it
	// fails, it is called again with the newest one, after 1 s and then twice as long each
	// time, up to a minute.
	Send func(ctx context.Context, note string) error
	// Witnesses are asked by Run to cosign each new checkpoint. Nothing waits for one that does not answer; it is asked
	// again after 1 s and then twice as long each time, up to a minute.
	Witnesses []LogWitness
}

// LogWitness is a witness of the transparency log (C2SP tlog-witness). It cosigns each checkpoint that continues what it
// has cosigned before.
type LogWitness struct {
	Key string // its verifier key, NAME+HASH+KEY
	URL string // its address before /add-checkpoint: https, or http on this machine
}

func (o LogOptions) withKey(url string) LogOptions {
	if path, _, local, _ := sqlite.SplitURL(url); local && o.Key == "" {
		o.Key = path + keyBeside
	}
	return o
}

// witnesses are the Witnesses.
func (o LogOptions) witnesses() (list []*translog.Witness, err error) {
	for _, x := range o.Witnesses {
		w, err := translog.NewWitness(x.Key, x.URL)
		if err != nil {
			return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: "open", Message: err.Error(), Err: err}
		}
		list = append(list, w)
	}
	return list, nil
}

// What is known of the transparency log.
type (
	// LogCheckpoint is a signed state of the transparency log.
	LogCheckpoint = pawl.LogCheckpoint
	// LogFault is one place where the database and its transparency log differ.
	LogFault = store.LogFault
	// LogFork is where a new history of the log began: its Origin, the Size up to which both are the same for certain, in
	// leaves, how many signed leaves of the old one are Lost behind it, the last Checkpoint of the old one, and when (At).
	LogFork = logs.Fork
	// LogVerification is the result of VerifyLog: whether the database is Intact, the Size of the log in leaves, the Events and
	// Pages that were read, the newest Checkpoint that counts (nil = none), the Faults, and the Forks, where the database went
	// back in time. No faults are Unlogged, events whose removal is not in the log yet, and Unproved, events whose inputs and
	// results could not be compared: their task is being deleted, or their rows were gone when the event was logged; nil = none.
	LogVerification = logs.Verification
	// TaskVerification is the result of VerifyTask: the TaskID, whether it is Intact, how many Events it has, how many of them
	// are Logged, and how many are proved to be under the Checkpoint (Signed; nil = there is none that counts), the Faults,
	// Unproved as in LogVerification, by id, and for a deleted task when and by whom (Deleted).
	TaskVerification = logs.TaskVerification
	// SinceVerification is the result of VerifySince: whether the log is Consistent with the checkpoint of size Since, the Size
	// of the log now, and what was Found.
	SinceVerification = logs.SinceVerification
	// SomeEvents are a number of Events, and the IDs of the first ones.
	SomeEvents = logs.Events
)

// Log adds everything that was committed before the call to the transparency log; Run does
// so continuously.
func (e *Engine) Log(ctx context.Context) error { return e.feed.Log(ctx) }
