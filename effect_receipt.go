package pawl

import "time"

// EffectReceipt proves without a database what became of an effect: its events, as the transparency log
// has them, with the proof of each under one signed checkpoint. It has digests of the request and of the
// answer, and neither of the two. translog.VerifyReceipt checks it.
type EffectReceipt struct {
	Format     string          `json:"format"` // EffectReceiptFormat
	Effect     EffectStatement `json:"effect"`
	Events     []ReceiptEvent  `json:"events"`     // those of the effect, oldest first; at most MaxReceiptEvents
	Checkpoint string          `json:"checkpoint"` // as it was signed: C2SP tlog-checkpoint
}

// EffectStatement is what the events of an effect say of it.
type EffectStatement struct {
	ID          string       `json:"id"`
	Namespace   string       `json:"namespace"`
	TaskID      string       `json:"task_id"`
	ItemID      string       `json:"item_id"`
	Name        string       `json:"name"`
	Key         string       `json:"key"`
	RequestHash string       `json:"request_hash"`
	State       EffectState  `json:"state"`
	Events      int          `json:"events"`                // how many say so
	Sendings    int          `json:"sendings"`              // how often it was opened for sending
	AnswerHash  string       `json:"answer_hash,omitempty"` // SHA-256 of the answer's bytes
	Outcome     string       `json:"outcome,omitempty"`     // what a person decided about it: rejected, or one of EffectOutcomes
	Contradicts bool         `json:"contradicts,omitempty"` // a report that came later says otherwise
	SentBy      *EffectActor `json:"sent_by,omitempty"`     // who opened it for sending last; absent = it was not
	ApprovedBy  *EffectActor `json:"approved_by,omitempty"`
	DecidedBy   *EffectActor `json:"decided_by,omitempty"` // who rejected or resolved it
	EndedAt     *time.Time   `json:"ended_at,omitempty"`   // when its state was decided, or became unknown
}

// EffectActor is who did something about an effect.
type EffectActor struct {
	Type    string    `json:"type"` // user, worker, agent or system
	ID      string    `json:"id,omitempty"`
	KeyID   string    `json:"key_id,omitempty"` // of its API key
	Attempt int       `json:"attempt,omitempty"`
	At      time.Time `json:"at"`
}

// ReceiptEvent is an event as its leaf in the log has it, with the hashes that lead from the leaf to the
// root of the checkpoint.
type ReceiptEvent struct {
	EventID string   `json:"event_id"`
	Index   int64    `json:"index"`  // of the leaf, from 0
	Leaf    string   `json:"leaf"`   // the canonical form of the event, in base64
	Hashes  []string `json:"hashes"` // in base64, the lowest first
}
