package engine

import (
	"slices"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
)

func number(i int) string { return strconv.Itoa(i) }

// checkType says what is wrong with a definition, by pointers into it.
func (e *Engine) checkType(t *pawl.Type) error {
	var f fields
	f.text("/name", t.Name, 1, pawl.MaxTypeLen-len(pawl.ApplySuffix))
	f.ownName("/name", t.Name)
	f.text("/description", t.Description, 0, pawl.MaxReasonLen)
	f.number("/priority", t.Priority, pawl.MinPriority, pawl.MaxPriority)
	f.number("/max_attempts", t.MaxAttempts, 0, pawl.MaxAttemptsCeiling)
	f.number("/lease_seconds", t.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
	f.number("/backoff/base_seconds", t.Backoff.BaseSeconds, 0, pawl.MaxLeaseSeconds)
	f.number("/backoff/max_seconds", t.Backoff.MaxSeconds, 0, 30*pawl.MaxLeaseSeconds)
	for member, s := range map[string]int{"task_seconds": t.Retention.TaskSeconds, "failed_seconds": t.Retention.FailedSeconds, "dead_lettered_seconds": t.Retention.DeadSeconds} {
		if s != 0 {
			f.number("/retention/"+member, s, 60, int(pawl.MaxDelay.Seconds()))
		}
	}
	f.number("/limits/max_items", t.Limits.MaxItems, 0, pawl.MaxItemsPerTask)
	f.number("/limits/max_payload_bytes", t.Limits.MaxPayloadBytes, 0, pawl.MaxPayloadBytes)
	f.number("/limits/max_result_bytes", t.Limits.MaxResultBytes, 0, pawl.MaxPayloadBytes)
	f.number("/limits/max_parts", t.Limits.MaxParts, 0, pawl.MaxParts)
	f.number("/limits/max_part_bytes", t.Limits.MaxPartBytes, 0, pawl.MaxPayloadBytes)
	choice(&f, "/on_item_failure", t.OnItemFailure, pawl.FailureWait, pawl.FailureCancel, pawl.FailureIgnore)
	f.plan(&t.Plan)
	f.parts(t)
	f.approval(&t.Approval)
	choice(&f, "/apply/mode", t.Apply.Mode, pawl.ApplyNone, pawl.ApplyGo, pawl.ApplyItem)
	f.number("/apply/max_attempts", t.Apply.MaxAttempts, 0, pawl.MaxAttemptsCeiling)
	f.number("/apply/lease_seconds", t.Apply.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
	f.schema(e, "/payload_schema", t.PayloadSchema)
	f.schema(e, "/input_schema", t.InputSchema)
	f.schema(e, "/result_schema", t.ResultSchema)
	f.schema(e, "/approval/when", t.Approval.When)
	for i, p := range t.Parts {
		f.schema(e, "/parts/"+number(i)+"/schema", p.Schema)
	}
	slices.SortStableFunc(f, func(a, b pawl.Field) int { return strings.Compare(a.Pointer, b.Pointer) })
	return f.err("put type")
}

// schema says what is wrong with a schema.
func (f *fields) schema(e *Engine, pointer string, raw []byte) {
	before := len(*f)
	if f.json(pointer, raw, pawl.MaxPayloadBytes); len(*f) > before {
		return
	}
	_, bad := e.schemas.Get(raw)
	for _, b := range bad {
		f.add(pointer+b.Pointer, "%s", b.Message)
	}
}

// ownName refuses a type's name that is kept for plan and apply items, and one
// with a comma: filters take lists of types that are separated by commas.
func (f *fields) ownName(pointer, name string) {
	for _, end := range []string{pawl.PlanSuffix, pawl.ApplySuffix} {
		if strings.HasSuffix(name, end) {
			f.add(pointer, "ends in %s, which is kept for items that Pawl makes", end)
		}
	}
	if strings.Contains(name, ",") {
		f.add(pointer, "contains a comma, which separates the types in a list")
	}
}

// choice checks a word of a closed list; "" is the list's first.
func choice[W ~string](f *fields, pointer string, word W, words ...W) {
	if word == "" || slices.Contains(words, word) {
		return
	}
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	f.add(pointer, "is %q; it must be one of %s", word, strings.Join(list, ", "))
}

func (f *fields) plan(p *pawl.Plan) {
	choice(f, "/plan/mode", p.Mode, pawl.PlanStatic, pawl.PlanSplit, pawl.PlanGo, pawl.PlanItem)
	f.number("/plan/max_attempts", p.MaxAttempts, 0, pawl.MaxAttemptsCeiling)
	f.number("/plan/lease_seconds", p.LeaseSeconds, 0, pawl.MaxLeaseSeconds)
	if p.Mode != pawl.PlanSplit {
		if p.Pointer != "" || p.Size != 0 || p.Into != "" || p.Number != "" || len(p.Keep) > 0 {
			f.add("/plan/mode", "is %q; pointer, size, into, number and keep belong to split", p.Mode)
		}
		return
	}
	f.text("/plan/pointer", p.Pointer, 0, pawl.MaxReasonLen)
	f.text("/plan/into", p.Into, 0, pawl.MaxKeyLen)
	f.text("/plan/number", p.Number, 0, pawl.MaxKeyLen)
	f.number("/plan/size", p.Size, 1, pawl.MaxItemsPerTask)
	if p.Pointer != "" && p.Pointer[0] != '/' {
		f.add("/plan/pointer", `is no JSON Pointer: it begins with "/"`)
	}
	if into(p) == "" {
		f.add("/plan/into", "is required where the pointer names the whole payload")
	}
	seen := map[string]bool{into(p): true}
	if p.Number != "" && seen[p.Number] {
		f.add("/plan/number", "is the member that the chunk is put in")
	}
	seen[p.Number] = true
	if len(p.Keep) > pawl.MaxClaim {
		f.add("/plan/keep", "has %d names; at most %d are allowed", len(p.Keep), pawl.MaxClaim)
		return
	}
	for i, name := range p.Keep {
		f.text("/plan/keep/"+number(i), name, 1, pawl.MaxKeyLen)
		if seen[name] {
			f.add("/plan/keep/"+number(i), "is there already")
		}
		seen[name] = true
	}
}

// into is the member of an input that its chunk is put in.
func into(p *pawl.Plan) string {
	if p.Into != "" || p.Pointer == "" {
		return p.Into
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(p.Pointer[strings.LastIndexByte(p.Pointer, '/')+1:])
}

func (f *fields) parts(t *pawl.Type) {
	if len(t.Parts) > pawl.MaxParts {
		f.add("/parts", "has %d rules; at most %d are allowed", len(t.Parts), pawl.MaxParts)
		return
	}
	seen := map[string]bool{}
	for i, p := range t.Parts {
		at := "/parts/" + number(i) + "/key"
		f.text(at, p.Key, 1, pawl.MaxPartKeyLen)
		if seen[p.Key] {
			f.add(at, "is there already")
		}
		seen[p.Key] = true
	}
	choice(f, "/assembly/mode", t.Assembly.Mode, pawl.AssembleMerge, pawl.AssembleConcat, pawl.AssembleGo)
	if t.Assembly.Mode != "" && len(t.Parts) == 0 {
		f.add("/assembly", "has no parts to assemble")
	}
}

func (f *fields) approval(a *pawl.Approval) {
	choice(f, "/approval/mode", a.Mode, pawl.ApprovalNone, pawl.ApprovalAuto, pawl.ApprovalManual)
	choice(f, "/approval/on_expiry", a.OnExpiry, pawl.ExpiryWait, pawl.ExpiryEscalate, pawl.ExpiryReject)
	f.number("/approval/expires_seconds", a.ExpiresSeconds, 0, int(pawl.MaxDelay.Seconds()))
	if len(a.When) > 0 && a.Mode != pawl.ApprovalAuto {
		f.add("/approval/when", "is a rule of auto; the mode is %q", a.Mode)
	}
	if a.OnExpiry != "" && a.ExpiresSeconds == 0 {
		f.add("/approval/expires_seconds", "is required where on_expiry is given")
	}
	if a.OnExpiry == pawl.ExpiryEscalate && len(a.EscalateTo) == 0 {
		f.add("/approval/escalate_to", "is required where on_expiry is escalate")
	}
	for at, who := range map[string][]string{"/approval/by/": a.By, "/approval/escalate_to/": a.EscalateTo} {
		if len(who) > pawl.MaxClaim {
			f.add(strings.TrimSuffix(at, "/"), "has %d names; at most %d are allowed", len(who), pawl.MaxClaim)
			continue
		}
		for i, w := range who {
			kind, id, found := strings.Cut(w, "/")
			if f.text(at+number(i), w, 1, pawl.MaxIDLen+50); !found || kind == "" || id == "" {
				f.add(at+number(i), "is %q; it must be type/id or type/*", w)
			}
		}
	}
}
