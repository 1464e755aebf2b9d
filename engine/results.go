package engine

import (
	"encoding/json"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// fits checks a value against a schema, with pointers below at. Without a schema every
// value fits.
func (r *typeRules) fits(at string, schema, value json.RawMessage) rules.Fields {
	if len(schema) == 0 {
		return nil
	}
	compiled, bad := r.schemas.Get(schema)
	if len(bad) == 0 {
		bad = compiled.Check(value)
	}
	var f rules.Fields
	for _, x := range bad {
		f.Add(at+x.Pointer, "%s", x.Message)
	}
	return f
}

// CheckWhole checks a result that is handed in whole: as CheckSubmission, and that the
// required parts are there.
func (r *typeRules) CheckWhole(op string, result, evidence json.RawMessage, parts []pawl.ItemPart) error {
	f := append(r.CheckRequiredParts(parts), r.submission(result, evidence)...)
	return f.Err(op)
}

// CheckSubmission checks a result that is handed in for acceptance, and its evidence.
func (r *typeRules) CheckSubmission(op string, result, evidence json.RawMessage) error {
	f := r.submission(result, evidence)
	return f.Err(op)
}

func (r *typeRules) submission(result, evidence json.RawMessage) rules.Fields {
	f := r.result(result)
	r.evidence(&f, evidence)
	return f
}

// result checks a result against the type's limit and schema.
func (r *typeRules) result(result json.RawMessage) rules.Fields {
	limit := pawl.MaxPayloadBytes
	if r.Limits.MaxResultBytes > 0 {
		limit = min(limit, r.Limits.MaxResultBytes)
	}
	if len(result) > limit {
		var f rules.Fields
		f.Add("/result", "has %d bytes; at most %d are allowed", len(result), limit)
		return f
	}
	return r.fits("/result", r.ResultSchema, result)
}

// evidence requires evidence if the type does.
func (r *typeRules) evidence(f *rules.Fields, evidence json.RawMessage) {
	if r.EvidenceRequired && (len(evidence) == 0 || string(evidence) == "null") {
		f.Add("/evidence", "is required by the type %s", r.Name)
	}
}

// JudgesWork reports whether the type has rules for input or results, as opposed to
// when and how often an item runs.
func (r *typeRules) JudgesWork() bool {
	return r.NeedsAcceptance() || r.EvidenceRequired || len(r.PayloadSchema)+len(r.InputSchema)+len(r.ResultSchema) > 0 ||
		r.Plans() || r.Limits != pawl.TypeLimits{}
}

// checkSubmit checks the call that submits a result, except for the rules of the type.
func checkSubmit(c *pawl.SubmitCall) error {
	var f rules.Fields
	f.Fence(c.Fence)
	f.JSON("/result", c.Result, pawl.MaxPayloadBytes)
	f.Extras(c.Evidence, c.Notes)
	return f.Err("submit")
}

// checkFinalize checks the call that assembles a result, except for the rules of the
// type.
func checkFinalize(c *pawl.FinalizeCall) error {
	var f rules.Fields
	f.Fence(c.Fence)
	f.Extras(c.Evidence, c.Notes)
	if c.Mode != "" && c.Mode != pawl.FinalizeStrict && c.Mode != pawl.FinalizeBestEffort {
		f.Add("/mode", "is %q; possible: %s, %s", c.Mode, pawl.FinalizeStrict, pawl.FinalizeBestEffort)
	}
	return f.Err("finalize")
}
