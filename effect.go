package pawl

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// EffectRecord is what is known of an effect: a call to the outside that changes something there: a payment, a mail, a deployment. It
// is a row before it is a request, so that after a crash it is known, or said to be unknown, whether
// it happened.
type EffectRecord struct {
	ID          string          `json:"id"`
	Name        string          `json:"name"` // within its item
	Key         string          `json:"key"`  // its identity in the namespace
	TaskID      string          `json:"task_id"`
	ItemID      string          `json:"item_id"`
	RequestHash string          `json:"request_hash"` // the digest of the request
	State       EffectState     `json:"state"`
	Repeatable  bool            `json:"repeatable,omitempty"` // the outside recognises the key: an unknown effect may be sent again
	Sender      string          `json:"sender"`               // attempt or gate: whose lease it is open for
	WorkerID    string          `json:"worker_id"`            // of the claim that opened it last
	Attempt     int             `json:"attempt"`
	Sendings    int             `json:"sendings"`             // how often it was opened for sending
	Approval    string          `json:"approval,omitempty"`   // asked, given or refused; absent = none is needed
	DecidedBy   string          `json:"decided_by,omitempty"` // who approved, rejected or resolved it
	Budget      string          `json:"budget,omitempty"`
	Amount      int64           `json:"amount,omitempty"`
	Outcome     string          `json:"outcome,omitempty"` // what a person decided about an unknown effect
	Comment     string          `json:"comment,omitempty"`
	Answer      json.RawMessage `json:"answer,omitempty"`
	AnswerHash  string          `json:"answer_hash,omitempty"` // SHA-256 of the answer's bytes
	Error       *Failure        `json:"error,omitempty"`
	// Late: a report came after the effect was decided. LateReport has the newest such report. Contradicts:
	// one of them says that it happened, and the decision that it did not, or the other way round.
	Late        bool          `json:"late,omitempty"`
	Contradicts bool          `json:"contradicts,omitempty"`
	LateReport  *EffectReport `json:"late_report,omitempty"`
	Source      string        `json:"source,omitempty"`     // in a fork or clone: the original's effect that it stands for
	OpenedAt    *time.Time    `json:"opened_at"`            // when it was opened for sending last; null = never
	EndedAt     *time.Time    `json:"ended_at"`             // when its state was last decided, or became unknown
	SentUntil   *time.Time    `json:"sent_until,omitempty"` // the end of the gate's own lease
	CreatedAt   time.Time     `json:"created_at"`
}

// EffectState is the state of an effect.
type EffectState string

// The states of effects.
const (
	EffectWaiting EffectState = "waiting" // for an approval
	EffectOpen    EffectState = "open"    // its sender may have sent it
	EffectDone    EffectState = "done"    // it happened; there is its answer
	EffectFailed  EffectState = "failed"  // it is known not to have happened
	EffectUnknown EffectState = "unknown" // it is not known whether it happened
)

// The lists of the states and outcomes of effects.
var (
	// EffectStates lists all states of effects.
	EffectStates = []EffectState{EffectUnknown, EffectWaiting, EffectOpen, EffectDone, EffectFailed}

	// EffectOutcomes lists all outcomes.
	EffectOutcomes = []string{Happened, DidNotHappen, GiveUp}
)

// The words of effects.
const (
	// The outcomes of Resolve.
	Happened     = "happened"
	DidNotHappen = "did_not_happen"
	GiveUp       = "give_up" // it stays unknown, and the item that waits for the decision fails

	// The senders of effects.
	SentByAttempt = "attempt"
	SentByGate    = "gate"

	// What an unknown effect does. "" = OnUnknownProbe with a Probe, else OnUnknownRepeat if it is Repeatable, else
	// OnUnknownAsk.
	OnUnknownProbe  = "probe"  // ask the outside; if that does not tell, ask a person
	OnUnknownRepeat = "repeat" // send it again, under the same key
	OnUnknownAsk    = "ask"    // suspend the item until a person has decided
	OnUnknownFail   = "fail"   // fail the item for good
)

// EffectReport is a report about an effect that was decided before.
type EffectReport struct {
	State      EffectState     `json:"state"`
	WorkerID   string          `json:"worker_id"`
	Attempt    int             `json:"attempt"`
	At         time.Time       `json:"at"`
	Answer     json.RawMessage `json:"answer,omitempty"`
	AnswerHash string          `json:"answer_hash,omitempty"`
	Error      *Failure        `json:"error,omitempty"`
}

// OpenEffectCall asks for the right to send an effect, once.
type OpenEffectCall struct {
	ItemID      string `json:"item_id"`
	WorkerID    string `json:"worker_id"`
	Attempt     int    `json:"attempt"`
	Name        string `json:"name"`                   // ≤ MaxEffectNameLen
	Key         string `json:"key,omitempty"`          // ≤ MaxKeyLen; "" = the item and the name
	RequestHash string `json:"request_hash"`           // a digest of the request, ≤ MaxKeyLen
	Repeatable  bool   `json:"repeatable,omitempty"`   // the outside recognises the key, so an unknown effect may be sent again
	Budget      string `json:"budget,omitempty"`       // the budget that Amount is reserved from
	Amount      int64  `json:"amount,omitempty"`       // 1…MaxBudgetAmount with a budget
	Approve     bool   `json:"approve,omitempty"`      // a person must approve it before it is sent
	WaitSeconds int    `json:"wait_seconds,omitempty"` // how long to wait, at most MaxWaitSeconds, while it waits or is open elsewhere
	// LeaseSeconds is for a gate, which sends in place of the attempt: the effect is open under a lease of its own, of at
	// most MaxLeaseSeconds, whatever becomes of the attempt; see KeepEffect. 0 = the attempt sends.
	LeaseSeconds int `json:"lease_seconds,omitempty"`
}

// Fence returns the claim that the call belongs to.
func (c OpenEffectCall) Fence() Fence { return Fence{c.ItemID, c.WorkerID, c.Attempt} }

// OpenedEffect answers an OpenEffectCall. Send is true for one caller at a time: it sends the request and
// reports what came of it.
type OpenedEffect struct {
	ID         string          `json:"id"`
	Key        string          `json:"key"`
	State      EffectState     `json:"state"`
	Send       bool            `json:"send"`
	Sending    int             `json:"sending,omitempty"` // with send: the number of this sending, for the report; from 1
	Answer     json.RawMessage `json:"answer,omitempty"`
	AnswerHash string          `json:"answer_hash,omitempty"`
	Error      *Failure        `json:"error,omitempty"`
}

// KeepEffectCall extends the lease of a gate on an effect that it sends.
type KeepEffectCall struct {
	ItemID       string `json:"item_id"`
	WorkerID     string `json:"worker_id"`
	Attempt      int    `json:"attempt"`
	LeaseSeconds int    `json:"lease_seconds"` // from now on; 1…MaxLeaseSeconds
}

// Fence returns the claim that the call belongs to.
func (c KeepEffectCall) Fence() Fence { return Fence{c.ItemID, c.WorkerID, c.Attempt} }

// EffectDoneCall reports that an effect happened.
type EffectDoneCall struct {
	ItemID   string          `json:"item_id"`
	WorkerID string          `json:"worker_id"`
	Attempt  int             `json:"attempt"`
	Sending  int             `json:"sending,omitempty"` // that it is about, as OpenedEffect says; 0 = the newest of the attempt
	Answer   json.RawMessage `json:"answer,omitempty"`  // at most MaxPayloadBytes; nil = null
	Amount   *int64          `json:"amount,omitempty"`  // what it cost; nil = what was reserved
}

// EffectFailedCall reports that an effect did not happen.
type EffectFailedCall struct {
	ItemID   string  `json:"item_id"`
	WorkerID string  `json:"worker_id"`
	Attempt  int     `json:"attempt"`
	Sending  int     `json:"sending,omitempty"` // as in EffectDoneCall
	Error    Failure `json:"error"`
}

// EffectUnknownCall reports that the sender does not know whether an effect happened.
type EffectUnknownCall struct {
	ItemID   string   `json:"item_id"`
	WorkerID string   `json:"worker_id"`
	Attempt  int      `json:"attempt"`
	Sending  int      `json:"sending,omitempty"` // as in EffectDoneCall
	Error    *Failure `json:"error,omitempty"`
}

// EffectDecision approves or rejects an effect that waits for it.
type EffectDecision struct {
	Comment string `json:"comment,omitempty"` // ≤ MaxReasonLen
}

// ResolveEffectCall is what a person decides about an unknown effect.
type ResolveEffectCall struct {
	Outcome string          `json:"outcome"`          // one of EffectOutcomes
	Answer  json.RawMessage `json:"answer,omitempty"` // with happened, if there is one
	Comment string          `json:"comment,omitempty"`
}

// EffectFilter selects effects, newest first.
type EffectFilter struct {
	States []EffectState // empty = all
	TaskID string
	ItemID string
	Name   string
	Key    string // those that stand for its effect in forks and clones are found with TaskID or ItemID
	Page
}

// EffectSender opens calls to the outside that change something there, and reports what came of them.
type EffectSender interface {
	// OpenEffect gives an attempt the right to send an effect: Send is true for one caller at a time. If the
	// effect is done, the answer has its answer. If it is unknown and may not be repeated, the call is
	// refused with ErrEffectUnknown, whose EffectID a person may resolve. Another request under the key is
	// ErrKeyReused.
	OpenEffect(ctx context.Context, call OpenEffectCall) (OpenedEffect, error)
	// EffectDone reports that an effect happened. It is compared with the claims that opened the effect, not
	// with the current lease: a report is never refused because it is late. Beside a decision it is kept.
	EffectDone(ctx context.Context, id string, call EffectDoneCall) (EffectRecord, error)
	// EffectFailed reports that an effect did not happen, as EffectDone does.
	EffectFailed(ctx context.Context, id string, call EffectFailedCall) (EffectRecord, error)
	// EffectUnknown reports that the sender does not know, as EffectDone does.
	EffectUnknown(ctx context.Context, id string, call EffectUnknownCall) (EffectRecord, error)
	// KeepEffect extends the lease of a gate that sends an effect. It is ErrLeaseLost if the effect is not open for it
	// any more.
	KeepEffect(ctx context.Context, id string, call KeepEffectCall) (EffectRecord, error)
}

// EffectDecider decides about effects. Each decision sends the signal EffectSignal with the effect's id
// as key.
type EffectDecider interface {
	// ApproveEffect lets an effect that waits be sent. The worker that opened it may not.
	ApproveEffect(ctx context.Context, id string, call EffectDecision) (EffectRecord, error)
	// RejectEffect makes an effect that waits failed, for good.
	RejectEffect(ctx context.Context, id string, call EffectDecision) (EffectRecord, error)
	// ResolveEffect decides an unknown effect.
	ResolveEffect(ctx context.Context, id string, call ResolveEffectCall) (EffectRecord, error)
}

// EffectReader reads effects.
type EffectReader interface {
	GetEffect(ctx context.Context, id string) (EffectRecord, error)
	ListEffects(ctx context.Context, f EffectFilter) (List[EffectRecord], error)
	// EffectReceipt proves what became of an effect, without a database. It is not_found until the events of
	// the effect are under a signed checkpoint: a second at most while a server signs.
	EffectReceipt(ctx context.Context, id string) (EffectReceipt, error)
}

// EffectOf returns the id of the effect that an error is about; "" = none.
func EffectOf(err error) string {
	var e *Error
	if errors.As(err, &e) {
		return e.EffectID
	}
	return ""
}
