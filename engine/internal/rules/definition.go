package rules

import (
	"strconv"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/schema"
)

// Schema checks that a value is a JSON Schema.
func (f *Fields) Schema(schemas *schema.Cache, pointer string, raw []byte) {
	before := len(*f)
	if f.JSON(pointer, raw, pawl.MaxPayloadBytes); len(*f) > before {
		return
	}
	_, bad := schemas.Get(raw)
	for _, b := range bad {
		f.Add(pointer+b.Pointer, "%s", b.Message)
	}
}

// TypeName refuses the names of plan and apply items, and names with a comma:
// filters take lists of types that are separated by commas.
func (f *Fields) TypeName(pointer, name string) {
	for _, end := range []string{pawl.PlanSuffix, pawl.ApplySuffix} {
		if strings.HasSuffix(name, end) {
			f.Add(pointer, "ends in %s, which is kept for items that Pawl makes", end)
		}
	}
	if strings.Contains(name, ",") {
		f.Add(pointer, "contains a comma, which separates the types in a list")
	}
}

// Plan checks the plan of a type.
func (f *Fields) Plan(p *pawl.Plan) {
	Choice(f, "/plan/mode", p.Mode, pawl.PlanStatic, pawl.PlanSplit, pawl.PlanGo, pawl.PlanItem)
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
	if ChunkMember(p) == "" {
		f.Add("/plan/into", "is required where the pointer names the whole payload")
	}
	seen := map[string]bool{ChunkMember(p): true}
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

// ChunkMember returns the member of an input that holds its chunk.
func ChunkMember(p *pawl.Plan) string {
	if p.Into != "" || p.Pointer == "" {
		return p.Into
	}
	return strings.NewReplacer("~1", "/", "~0", "~").Replace(p.Pointer[strings.LastIndexByte(p.Pointer, '/')+1:])
}

// Parts checks the part rules and the assembly of a type.
func (f *Fields) Parts(t *pawl.Type) {
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
	Choice(f, "/assembly/mode", t.Assembly.Mode, pawl.AssembleMerge, pawl.AssembleConcat, pawl.AssembleGo)
	if t.Assembly.Mode != "" && len(t.Parts) == 0 {
		f.Add("/assembly", "has no parts to assemble")
	}
}

// Approval checks the approval of a type.
func (f *Fields) Approval(a *pawl.Approval) {
	Choice(f, "/approval/mode", a.Mode, pawl.ApprovalNone, pawl.ApprovalAuto, pawl.ApprovalManual)
	Choice(f, "/approval/on_expiry", a.OnExpiry, pawl.ExpiryWait, pawl.ExpiryEscalate, pawl.ExpiryReject)
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
