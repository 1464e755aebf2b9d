package engine

import (
	"fmt"

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
