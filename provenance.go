package pawl

import (
	"context"
	"encoding/json"
	"time"
)

// Provenance is what somebody says of himself when he does something: kept with
// the event of what he did, in its transaction. The engine believes it; what it
// knows itself (the caller, the worker) is in the event. Of a call that is
// refused nothing is kept.
type Provenance struct {
	// ≤ 255; absent = the worker of the call, else the caller's name
	AgentID            string `json:"agent_id,omitempty"`
	AgentName          string `json:"agent_name,omitempty"`          // ≤ 255
	AgentVersion       string `json:"agent_version,omitempty"`       // ≤ 255
	Model              string `json:"model,omitempty"`               // ≤ 255
	RequestFingerprint string `json:"request_fingerprint,omitempty"` // ≤ 64; absent = HashOf the call
	// ≤ 255; absent = the key that the call is carried out under. Used again for the same verb and subject: ErrKeyReused
	IdempotencyKey string          `json:"idempotency_key,omitempty"`
	Extra          json.RawMessage `json:"extra,omitempty"` // a JSON object ≤ 16 KiB
}

// ProvenanceRecord is who did one thing, with what.
type ProvenanceRecord struct {
	ID         string          `json:"id"`
	TaskID     string          `json:"task_id"`
	ItemID     string          `json:"item_id,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Verb       string          `json:"verb"`            // one of ProvenanceVerbs
	Scope      string          `json:"scope,omitempty"` // of the idempotency key: verb:item:ID or verb:task:ID
	Provenance                 // its IdempotencyKey is the key's SHA-256, in hex: the key itself is not stored
	EventID    string          `json:"event_id,omitempty"` // the event of what was done
	Data       json.RawMessage `json:"data,omitempty"`     // that event's: evidence and notes of a submission, errors of a rejection
	CreatedAt  time.Time       `json:"created_at"`
}

// ProvenanceVerb is one row of ProvenanceVerbs.
type ProvenanceVerb struct {
	Verb  string
	Event string // that the verb leaves
}

// ProvenanceVerbs is the closed list of verbs that take provenance.
var ProvenanceVerbs = []ProvenanceVerb{
	{"create", "proposed"},
	{"claim", "leased"},
	{"submit", "submitted"},
	{"finalize", "submitted"},
	{"complete", "completed"},
	{"fail", "failed"},
	{"approve", "approved"},
	{"reject", "rejected"},
}

// ProvenanceFilter selects provenance, oldest first.
type ProvenanceFilter struct {
	TaskID string // this or ItemID is required
	ItemID string
	Page
}

type provenanceKey struct{}

// WithProvenance returns a context whose calls carry p, but for those that bring
// their own: of every verb in ProvenanceVerbs. The zero value takes it away again.
func WithProvenance(ctx context.Context, p Provenance) context.Context {
	return context.WithValue(ctx, provenanceKey{}, &p)
}

// Provenant gives those of the calls that bring no provenance the context's. The
// calls of the caller stay as they are: what changes is a copy.
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

// ProvenanceOf is where a call, given as a pointer, carries its provenance; nil
// for one that carries none.
func ProvenanceOf(call any) **Provenance {
	switch c := call.(type) {
	case *NewTask:
		return &c.Provenance
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
