package engine

import (
	"fmt"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// checkClaim checks a claim, and sets its limit to 1 if it
// names none.
func checkClaim(req *pawl.ClaimRequest) error {
	if req.Limit == 0 {
		req.Limit = 1
	}
	var f rules.Fields
	f.Text("/worker_id", req.WorkerID, 1, pawl.MaxIDLen)
	f.Number("/limit", req.Limit, 1, pawl.MaxClaim)
	f.Number("/lease_seconds", req.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
	f.Number("/wait_seconds", req.WaitSeconds, 0, pawl.MaxWaitSeconds)
	f.Text("/task_id", req.TaskID, 0, pawl.MaxIDLen)
	f.Text("/item_id", req.ItemID, 0, pawl.MaxIDLen)
	if len(req.Types) > 1000 {
		f.Add("/types", "has %d types; at most 1000 are allowed", len(req.Types))
	}
	for i, t := range req.Types {
		f.Text(fmt.Sprintf("/types/%d", i), t, 1, pawl.MaxTypeLen)
	}
	return f.Err("claim")
}

// checkRevoke checks the call that revokes a lease.
func checkRevoke(c *pawl.RevokeCall) error {
	var f rules.Fields
	f.Text("/id", c.ItemID, 1, pawl.MaxIDLen)
	f.Text("/reason", c.Reason, 0, pawl.MaxReasonLen)
	if c.Attempt < 0 {
		f.Add("/attempt", "must not be below 0")
	}
	return f.Err("revoke_lease")
}

// checkQueue checks the type that a queue is of.
func checkQueue(op, typ string) error {
	var f rules.Fields
	f.Text("/type", typ, 1, pawl.MaxTypeLen)
	if op == "set_queue" {
		f.Reserved("/type", typ)
	}
	return f.Err(op)
}
