package pawl

import (
	"context"
	"encoding/json"
	"time"
)

// Provenance is what a caller states about itself. It is stored with the event of the
// call, in the same transaction. The engine does not check it; what the engine knows
// itself (the caller, the worker) is in the event. Nothing is stored for a refused call.
type Provenance struct {
	// ≤ 255; absent = the worker of the call, or else the caller's name
	AgentID            string `json:"agent_id,omitempty"`
	AgentName          string `json:"agent_name,omitempty"`          // ≤ 255
	AgentVersion       string `json:"agent_version,omitempty"`       // ≤ 255
	Model              string `json:"model,omitempty"`               // ≤ 255
	RequestFingerprint string `json:"request_fingerprint,omitempty"` // ≤ 64; absent = HashOf the call
	// ≤ 255; absent = the key that the call is carried out under. Used again for the same verb and subject: ErrKeyReused
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	Extra          json.RawMessage `json:"extra,omitempty"` // a JSON object ≤ 16 KiB
}

// ProvenanceRecord is the provenance of one call.
type ProvenanceRecord struct {
	ID         string          `json:"id"`
	TaskID     string          `json:"task_id"`
	ItemID     string          `json:"item_id,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Verb       string          `json:"verb"`            // create, claim, submit, finalize, complete, fail, approve or reject
	Scope      string          `json:"scope,omitempty"` // scope of the idempotency key: verb:item:ID or verb:task:ID
	Provenance                 // its IdempotencyKey is the SHA-256 of the key, in hex; the key itself is not stored
	EventID    string          `json:"event_id,omitempty"` // the event of the call
	Data       json.RawMessage `json:"data,omitempty"`     // data of that event: evidence and notes of a submission, errors of a rejection
	CreatedAt  time.Time       `json:"created_at"`
}

// ProvenanceFilter selects provenance, oldest first.
type ProvenanceFilter struct {
	TaskID string // this or ItemID is required
	ItemID string
	Page
}

type provenanceKey struct{}

// WithProvenance returns a context whose calls carry p, unless they have their own: those of
// the verbs that ProvenanceRecord.Verb lists. The zero value removes it.
func WithProvenance(ctx context.Context, p Provenance) context.Context {
	return context.WithValue(ctx, provenanceKey{}, &p)
}

// Provenant returns the calls with the context's provenance in those that have none. It
// copies the calls and leaves the caller's slice unchanged.
func Provenant[C any](ctx context.Context, calls []C) []C {
	p, _ := ctx.Value(provenanceKey{}).(*Provenance)
	if p == nil || p.isZero() || len(calls) == 0 || ProvenanceOf(&calls[0]) == nil {
		return calls
	}
	out := append([]C(nil), calls...)
	for i := range out {
		if own := ProvenanceOf(&out[i]); *own == nil {
			*own = p
		}
	}
	return out
}

func (p *Provenance) isZero() bool {
	return p.AgentID == "" && p.AgentName == "" && p.AgentVersion == "" && p.Model == "" && p.RequestFingerprint == "" &&
		p.IdempotencyKey == "" && len(p.Extra) == 0
}

// ProvenanceOf returns a pointer to the provenance of a call, which is given as a
// pointer; nil if the call cannot carry provenance.
func ProvenanceOf(call any) **Provenance {
	switch c := call.(type) {
	case *NewTask:
		return &c.Provenance
	case *SpawnCall:
		return &c.Task.Provenance
	case *ClaimRequest:
		return &c.Provenance
	case *SubmitCall:
		return &c.Provenance
	case *FinalizeCall:
		return &c.Provenance
	case *CompleteCall:
		return &c.Provenance
	case *FailCall:
		return &c.Provenance
	case *ApproveCall:
		return &c.Provenance
	case *RejectCall:
		return &c.Provenance
	}
	return nil
}
