package rules

import (
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/schema"
)

// Rules are the rules of one version of a type, without its hooks, which are code of the
// application.
type Rules struct {
	*pawl.Type
	schemas *schema.Cache
}

// New returns the rules of a type. Its schemas are compiled once, in schemas.
func New(t *pawl.Type, schemas *schema.Cache) Rules { return Rules{t, schemas} }

// fits checks a value against a schema, with pointers below at. Without a schema every
// value fits.
func (r *Rules) fits(at string, schema, value json.RawMessage) Fields {
	if len(schema) == 0 {
		return nil
	}
	compiled, bad := r.schemas.Get(schema)
	if len(bad) == 0 {
		bad = compiled.Check(value)
	}
	var f Fields
	for _, x := range bad {
		f.Add(at+x.Pointer, "%s", x.Message)
	}
	return f
}

// CheckWhole checks a result that is handed in whole: as CheckSubmission, and that the
// required parts are there.
func (r *Rules) CheckWhole(op string, result, evidence json.RawMessage, parts []pawl.ItemPart) error {
	f := append(r.CheckRequiredParts(parts), r.submission(result, evidence)...)
	return f.Err(op)
}

// CheckSubmission checks a result that is handed in for acceptance, and its evidence.
func (r *Rules) CheckSubmission(op string, result, evidence json.RawMessage) error {
	f := r.submission(result, evidence)
	return f.Err(op)
}

func (r *Rules) submission(result, evidence json.RawMessage) Fields {
	f := r.result(result)
	r.evidence(&f, evidence)
	return f
}

// result checks a result against the type's limit and schema.
func (r *Rules) result(result json.RawMessage) Fields {
	limit := pawl.MaxPayloadBytes
	if r.Limits.MaxResultBytes > 0 {
		limit = min(limit, r.Limits.MaxResultBytes)
	}
	if len(result) > limit {
		var f Fields
		f.Add("/result", "has %d bytes; at most %d are allowed", len(result), limit)
		return f
	}
	return r.fits("/result", r.ResultSchema, result)
}

// extras checks the form of evidence and notes.
func (f *Fields) extras(evidence json.RawMessage, notes string) {
	f.JSON("/evidence", evidence, pawl.MaxErrorBytes)
	f.Text("/notes", notes, 0, pawl.MaxReasonLen)
}

// evidence requires evidence if the type does.
func (r *Rules) evidence(f *Fields, evidence json.RawMessage) {
	if r.EvidenceRequired && (len(evidence) == 0 || string(evidence) == "null") {
		f.Add("/evidence", "is required by the type %s", r.Name)
	}
}

// JudgesWork reports whether the type has rules for input or results, as opposed to
// when and how often an item runs.
func (r *Rules) JudgesWork() bool {
	return r.NeedsAcceptance() || r.EvidenceRequired || len(r.PayloadSchema)+len(r.InputSchema)+len(r.ResultSchema) > 0 ||
		r.Plans() || r.Limits != pawl.TypeLimits{}
}

// CheckSubmit checks the call that submits a result, except for the rules of the type.
func CheckSubmit(c *pawl.SubmitCall) error {
	var f Fields
	f.Fence(c.Fence)
	f.JSON("/result", c.Result, pawl.MaxPayloadBytes)
	f.extras(c.Evidence, c.Notes)
	return f.Err("submit")
}

// CheckFinalize checks the call that assembles a result, except for the rules of the
// type.
func CheckFinalize(c *pawl.FinalizeCall) error {
	var f Fields
	f.Fence(c.Fence)
	f.extras(c.Evidence, c.Notes)
	if c.Mode != "" && c.Mode != pawl.FinalizeStrict && c.Mode != pawl.FinalizeBestEffort {
		f.Add("/mode", "is %q; possible: %s, %s", c.Mode, pawl.FinalizeStrict, pawl.FinalizeBestEffort)
	}
	return f.Err("finalize")
}
