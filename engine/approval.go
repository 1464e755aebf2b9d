package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// checkApprove checks the call that approves a task.
func checkApprove(c *pawl.ApproveCall) error {
	var f rules.Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.Text("/comment", c.Comment, 0, pawl.MaxReasonLen)
	if c.Limit != nil && (*c.Limit < 1 || *c.Limit > pawl.MaxBudgetAmount) {
		f.Add("/limit", "must be 1…%d", pawl.MaxBudgetAmount)
	}
	return f.Err("approve")
}

// checkReject checks the call that rejects a task.
func checkReject(c *pawl.RejectCall) error {
	var f rules.Fields
	f.Text("/task_id", c.TaskID, 1, pawl.MaxIDLen)
	f.Text("/comment", c.Comment, 0, pawl.MaxReasonLen)
	if len(c.Errors) == 0 {
		f.Add("/errors", "is required: say what is wrong, so that it can be mended")
	}
	f.Number("/errors", len(c.Errors), 0, maxComplaints)
	for i, x := range c.Errors {
		at := fmt.Sprintf("/errors/%d", i)
		f.Text(at+"/code", x.Code, 1, pawl.MaxTypeLen)
		f.Text(at+"/message", x.Message, 1, pawl.MaxReasonLen)
		f.Text(at+"/field", x.Field, 0, pawl.MaxReasonLen)
	}
	if len(c.ItemIDs) > 0 && !c.AllowRework {
		f.Add("/items", "is for rework: a task is rejected as a whole")
	}
	for i, id := range c.ItemIDs {
		f.Text(fmt.Sprintf("/items/%d", i), id, 1, pawl.MaxIDLen)
	}
	return f.Err("reject")
}

// EscalationWidens reports whether more actors may decide about a task once its approval
// is escalated.
func (r *typeRules) EscalationWidens() bool {
	return len(r.Approval.By) > 0 && r.Approval.OnExpiry == pawl.ExpiryEscalate
}

// CheckDecider refuses an actor that may not decide about tasks of the type. escalated
// says that the approval of the task was escalated. An actor that states its own name must
// not state it as a type and id: it would count as another one than that of the id.
func (r *typeRules) CheckDecider(verb string, by rules.Actor, escalated bool) error {
	if by.Key == "" && strings.Contains(by.ID, "/") {
		return pawl.Invalid("/actor_id", "is %q; the name of an actor has no slash", by.ID)
	}
	allowed := r.Approval.By
	if escalated {
		allowed = append(slices.Clip(allowed), r.Approval.EscalateTo...)
	}
	who := by.Type + "/" + by.ID
	if len(allowed) > 0 && !slices.Contains(allowed, who) && !slices.Contains(allowed, by.Type+"/*") {
		return &pawl.Error{
			Code:    pawl.CodeForbidden,
			Op:      verb,
			Message: fmt.Sprintf("%s may not decide about tasks of type %s; %s may", who, r.Name, strings.Join(allowed, ", ")),
		}
	}
	return nil
}

// Consents reports whether the type's rule approves submitted items without a decision.
// With the mode auto, the hook AutoApprove has to consent as well, if there is one.
func (r *typeRules) Consents(items []pawl.Item) bool {
	switch r.Approval.Mode {
	case "", pawl.ApprovalNone:
		return true
	case pawl.ApprovalManual:
		return false
	}
	for i := range items {
		if len(r.fits("", r.Approval.When, items[i].Result)) > 0 {
			return false
		}
	}
	return true
}
