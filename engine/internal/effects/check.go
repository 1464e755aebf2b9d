package effects

import (
	"encoding/json"
	"slices"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// CheckOpen checks a call that opens an effect, and fills in its key.
func CheckOpen(c *pawl.OpenEffectCall) error {
	var f rules.Fields
	f.FenceOf("/item_id", c.Fence())
	f.Text("/name", c.Name, 1, pawl.MaxEffectNameLen)
	f.Text("/key", c.Key, 0, pawl.MaxKeyLen)
	f.Text("/request_hash", c.RequestHash, 1, pawl.MaxKeyLen)
	f.Text("/budget", c.Budget, 0, pawl.MaxBudgetNameLen)
	f.Number("/wait_seconds", c.WaitSeconds, 0, pawl.MaxWaitSeconds)
	f.Number("/lease_seconds", c.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
	switch {
	case c.Budget == "" && c.Amount != 0:
		f.Add("/amount", "needs a budget")
	case c.Budget != "" && (c.Amount < 1 || c.Amount > pawl.MaxBudgetAmount):
		f.Add("/amount", "is %d; it must lie between 1 and %d", c.Amount, pawl.MaxBudgetAmount)
	}
	if c.Key == "" {
		c.Key = DefaultKey(c.ItemID, c.Name)
	}
	return f.Err("open")
}

// CheckKeep checks a call that extends the lease of a gate.
func CheckKeep(c *pawl.KeepEffectCall) error {
	var f rules.Fields
	f.FenceOf("/item_id", c.Fence())
	f.Number("/lease_seconds", c.LeaseSeconds, 1, pawl.MaxLeaseSeconds)
	return f.Err("keep")
}

// DefaultKey is the key of an effect that has none of its own.
func DefaultKey(itemID, name string) string { return itemID + "/" + name }

// CheckReport checks a report about an effect.
func CheckReport(op string, fence pawl.Fence, sending int, answer json.RawMessage, amount *int64, failure *pawl.Failure) error {
	var f rules.Fields
	f.FenceOf("/item_id", fence)
	if sending < 0 {
		f.Add("/sending", "is %d; it must not be negative", sending)
	}
	if len(answer) > 0 {
		f.JSON("/answer", answer, pawl.MaxPayloadBytes)
	}
	if amount != nil && (*amount < 0 || *amount > pawl.MaxBudgetAmount) {
		f.Add("/amount", "is %d; it must lie between 0 and %d", *amount, pawl.MaxBudgetAmount)
	}
	if failure != nil {
		f.Text("/error/code", failure.Code, 0, pawl.MaxTypeLen)
		f.JSON("/error", rules.Encode(failure), pawl.MaxErrorBytes)
	}
	return f.Err(op)
}

// CheckResolve checks what a person says about an unknown effect.
func CheckResolve(c *pawl.ResolveEffectCall) error {
	var f rules.Fields
	if !slices.Contains(pawl.EffectOutcomes, c.Outcome) {
		f.Add("/outcome", "is %q; it must be happened, did_not_happen or give_up", c.Outcome)
	}
	if len(c.Answer) > 0 {
		f.JSON("/answer", c.Answer, pawl.MaxPayloadBytes)
		if c.Outcome != pawl.Happened {
			f.Add("/answer", "is for the outcome happened")
		}
	}
	f.Text("/comment", c.Comment, 0, pawl.MaxReasonLen)
	return f.Err("resolve")
}

// CheckDecision checks an approval or a rejection.
func CheckDecision(op string, c *pawl.EffectDecision) error {
	var f rules.Fields
	f.Text("/comment", c.Comment, 0, pawl.MaxReasonLen)
	return f.Err(op)
}

// CheckFilter checks a filter of effects.
func CheckFilter(q *pawl.EffectFilter) error {
	var f rules.Fields
	for _, s := range q.States {
		if !slices.Contains(pawl.EffectStates, s) {
			f.Add("/state", "is %q; it must be unknown, waiting, open, done or failed", s)
		}
	}
	if err := f.Err("list"); err != nil {
		return err
	}
	return rules.CheckPage(&q.Page)
}
