package engine

import (
	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

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
