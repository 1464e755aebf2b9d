package engine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/schema"
)

// checkType checks the definition of a type. The error names all faults by pointers
// into the definition, in the order of the pointers.
func checkType(t *pawl.Type, schemas *schema.Cache) error {
	var f rules.Fields
	f.Text("/name", t.Name, 1, pawl.MaxTypeLen-len(pawl.ApplySuffix))
	f.TypeName("/name", t.Name)
	f.Reserved("/name", t.Name)
	f.Text("/description", t.Description, 0, pawl.MaxReasonLen)
	f.Number("/priority", t.Priority, pawl.MinPriority, pawl.MaxPriority)
	f.Number("/max_attempts", t.MaxAttempts, 0, pawl.MaxAttemptsCeiling)
	f.Number("/lease_seconds", t.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
	f.Number("/backoff/base_seconds", t.Backoff.BaseSeconds, 0, pawl.MaxLeaseSeconds)
	f.Number("/backoff/max_seconds", t.Backoff.MaxSeconds, 0, 30*pawl.MaxLeaseSeconds)
	for member, s := range map[string]int{
		"task_seconds":          t.Retention.TaskSeconds,
		"failed_seconds":        t.Retention.FailedSeconds,
		"dead_lettered_seconds": t.Retention.DeadSeconds,
	} {
		if s != 0 {
			f.Number("/retention/"+member, s, 60, int(pawl.MaxDelay.Seconds()))
		}
	}
	f.Number("/limits/max_items", t.Limits.MaxItems, 0, pawl.MaxItemsPerTask)
	f.Number("/limits/max_payload_bytes", t.Limits.MaxPayloadBytes, 0, pawl.MaxPayloadBytes)
	f.Number("/limits/max_result_bytes", t.Limits.MaxResultBytes, 0, pawl.MaxPayloadBytes)
	f.Number("/limits/max_parts", t.Limits.MaxParts, 0, pawl.MaxParts)
	f.Number("/limits/max_part_bytes", t.Limits.MaxPartBytes, 0, pawl.MaxPayloadBytes)
	rules.Choice(&f, "/on_item_failure", t.OnItemFailure, pawl.FailureWait, pawl.FailureCancel, pawl.FailureIgnore)
	f.Plan(&t.Plan)
	f.Parts(t)
	f.Approval(&t.Approval)
	rules.Choice(&f, "/apply/mode", t.Apply.Mode, pawl.ApplyNone, pawl.ApplyGo, pawl.ApplyItem)
	f.Number("/apply/max_attempts", t.Apply.MaxAttempts, 0, pawl.MaxAttemptsCeiling)
	f.Number("/apply/lease_seconds", t.Apply.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
	f.Schema(schemas, "/payload_schema", t.PayloadSchema)
	f.Schema(schemas, "/input_schema", t.InputSchema)
	f.Schema(schemas, "/result_schema", t.ResultSchema)
	f.Schema(schemas, "/approval/when", t.Approval.When)
	for i, p := range t.Parts {
		f.Schema(schemas, "/parts/"+strconv.Itoa(i)+"/schema", p.Schema)
	}
	slices.SortStableFunc(f, func(a, b pawl.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return f.Err("put type")
}
