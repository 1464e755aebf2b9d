package tasktypes

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
	"github.com/pawl-work/pawl/schema"
)

// check checks the definition of a type. The error names all faults by pointers
// into the definition, in the order of the pointers.
func check(t *pawl.Type, schemas *schema.Cache) error {
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
	plan(&f, &t.Plan)
	parts(&f, t)
	approval(&f, &t.Approval)
	rules.Choice(&f, "/apply/mode", t.Apply.Mode, pawl.ApplyNone, pawl.ApplyGo, pawl.ApplyItem)
	f.Number("/apply/max_attempts", t.Apply.MaxAttempts, 0, pawl.MaxAttemptsCeiling)
	f.Number("/apply/lease_seconds", t.Apply.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
	schemaAt(&f, schemas, "/payload_schema", t.PayloadSchema)
	schemaAt(&f, schemas, "/input_schema", t.InputSchema)
	schemaAt(&f, schemas, "/result_schema", t.ResultSchema)
	schemaAt(&f, schemas, "/approval/when", t.Approval.When)
	for i, p := range t.Parts {
		schemaAt(&f, schemas, "/parts/"+strconv.Itoa(i)+"/schema", p.Schema)
	}
	slices.SortStableFunc(f, func(a, b pawl.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return f.Err("put type")
}

// plan checks the plan of a type.
func plan(f *rules.Fields, p *pawl.Plan) {
	rules.Choice(f, "/plan/mode", p.Mode, pawl.PlanStatic, pawl.PlanSplit, pawl.PlanGo, pawl.PlanItem)
	f.Number("/plan/max_attempts", p.MaxAttempts, 0, pawl.MaxAttemptsCeiling)
	f.Number("/plan/lease_seconds", p.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
	if p.Mode != pawl.PlanSplit {
		if p.Pointer != "" || p.Size != 0 || p.Into != "" || p.Number != "" || len(p.Keep) > 0 {
			f.Add("/plan/mode", "is %q; pointer, size, into, number and keep belong to split", p.Mode)
		}
		return
	}
	f.Text("/plan/pointer", p.Pointer, 0, pawl.MaxReasonLen)
	f.Text("/plan/into", p.Into, 0, pawl.MaxKeyLen)
	f.Text("/plan/number", p.Number, 0, pawl.MaxKeyLen)
	f.Number("/plan/size", p.Size, 1, pawl.MaxItemsPerTask)
	if p.Pointer != "" && p.Pointer[0] != '/' {
		f.Add("/plan/pointer", `is no JSON Pointer: it begins with "/"`)
	}
	if chunkMember(p) == "" {
		f.Add("/plan/into", "is required where the pointer names the whole payload")
	}
	seen := map[string]bool{chunkMember(p): true}
	if p.Number != "" && seen[p.Number] {
		f.Add("/plan/number", "is the member that the chunk is put in")
	}
	seen[p.Number] = true
	if len(p.Keep) > pawl.MaxClaim {
		f.Add("/plan/keep", "has %d names; at most %d are allowed", len(p.Keep), pawl.MaxClaim)
		return
	}
	for i, name := range p.Keep {
		f.Text("/plan/keep/"+strconv.Itoa(i), name, 1, pawl.MaxKeyLen)
		if seen[name] {
			f.Add("/plan/keep/"+strconv.Itoa(i), "is there already")
		}
		seen[name] = true
	}
}

// chunkMember returns the member of an input that holds its chunk.
func chunkMember(p *pawl.Plan) string {
	if p.Into != "" || p.Pointer == "" {
		return p.Into
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(p.Pointer[strings.LastIndexByte(p.Pointer, '/')+1:])
}

// parts checks the part rules and the assembly of a type.
func parts(f *rules.Fields, t *pawl.Type) {
	if len(t.Parts) > pawl.MaxParts {
		f.Add("/parts", "has %d rules; at most %d are allowed", len(t.Parts), pawl.MaxParts)
		return
	}
	seen := map[string]bool{}
	for i, p := range t.Parts {
		at := "/parts/" + strconv.Itoa(i) + "/key"
		f.Text(at, p.Key, 1, pawl.MaxPartKeyLen)
		if seen[p.Key] {
			f.Add(at, "is there already")
		}
		seen[p.Key] = true
	}
	rules.Choice(f, "/assembly/mode", t.Assembly.Mode, pawl.AssembleMerge, pawl.AssembleConcat, pawl.AssembleGo)
	if t.Assembly.Mode != "" && len(t.Parts) == 0 {
		f.Add("/assembly", "has no parts to assemble")
	}
}

// approval checks the approval of a type.
func approval(f *rules.Fields, a *pawl.Approval) {
	rules.Choice(f, "/approval/mode", a.Mode, pawl.ApprovalNone, pawl.ApprovalAuto, pawl.ApprovalManual)
	rules.Choice(f, "/approval/on_expiry", a.OnExpiry, pawl.ExpiryWait, pawl.ExpiryEscalate, pawl.ExpiryReject)
	f.Number("/approval/expires_seconds", a.ExpiresSeconds, 0, int(pawl.MaxDelay.Seconds()))
	if len(a.When) > 0 && a.Mode != pawl.ApprovalAuto {
		f.Add("/approval/when", "is a rule of auto; the mode is %q", a.Mode)
	}
	if a.OnExpiry != "" && a.ExpiresSeconds == 0 {
		f.Add("/approval/expires_seconds", "is required where on_expiry is given")
	}
	if a.OnExpiry == pawl.ExpiryEscalate && len(a.EscalateTo) == 0 {
		f.Add("/approval/escalate_to", "is required where on_expiry is escalate")
	}
	for at, who := range map[string][]string{"/approval/by/": a.By, "/approval/escalate_to/": a.EscalateTo} {
		if len(who) > pawl.MaxClaim {
			f.Add(strings.TrimSuffix(at, "/"), "has %d names; at most %d are allowed", len(who), pawl.MaxClaim)
			continue
		}
		for i, w := range who {
			kind, id, err := pawl.ParseActor(w)
			if f.Text(at+strconv.Itoa(i), w, 1, pawl.MaxIDLen+50); err != nil || kind == "" || id == "" {
				f.Add(at+strconv.Itoa(i), "is %q; it must be type/id or type/*, with a type of %s, and an id has no slash",
					w, strings.Join(pawl.ActorTypes, ", "))
			}
		}
	}
}

// schemaAt checks that a value is a JSON Schema.
func schemaAt(f *rules.Fields, schemas *schema.Cache, pointer string, raw []byte) {
	before := len(*f)
	if f.JSON(pointer, raw, pawl.MaxPayloadBytes); len(*f) > before {
		return
	}
	_, bad := schemas.Get(raw)
	for _, b := range bad {
		f.Add(pointer+b.Pointer, "%s", b.Message)
	}
}
