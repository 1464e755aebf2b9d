package server

import "github.com/pawl-work/pawl"

// bounds are the limits, by the properties that they apply to in every schema.
var bounds = []struct {
	property, kind, keyword string
	value                   int
}{
	{"type", "string", "maxLength", pawl.MaxTypeLen},
	{"title", "string", "maxLength", pawl.MaxTitleLen},
	{"stage", "string", "maxLength", pawl.MaxStageLen},
	{"worker_id", "string", "maxLength", pawl.MaxIDLen},
	{"key", "string", "maxLength", pawl.MaxKeyLen},
	{"scope", "string", "maxLength", pawl.MaxScopeLen},
	{"name", "string", "maxLength", pawl.MaxKeyLen},
	{"reason", "string", "maxLength", pawl.MaxReasonLen},
	{"input_hash", "string", "maxLength", 64},
	{"priority", "integer", "minimum", pawl.MinPriority},
	{"priority", "integer", "maximum", pawl.MaxPriority},
	{"max_attempts", "integer", "maximum", pawl.MaxAttemptsCeiling},
	{"lease_seconds", "integer", "maximum", pawl.MaxLeaseSeconds},
	{"wait_seconds", "integer", "maximum", pawl.MaxWaitSeconds},
	{"progress", "integer", "minimum", 0},
	{"progress", "integer", "maximum", 100},
}

// describeBounds sets the limits in all schemas.
func describeBounds(schemas map[string]any) {
	for _, b := range bounds {
		for _, schema := range schemas {
			if p := property(schema, b.property); p != nil && p["type"] == b.kind {
				p[b.keyword] = b.value
			}
		}
	}
	for _, schema := range schemas {
		if name := property(schema, "name"); name != nil && property(schema, "snapshot") != nil {
			name["maxLength"] = pawl.MaxStepNameLen
		}
	}
	property(schemas["ClaimRequest"], "limit")["maximum"] = pawl.MaxClaim // not that of a rate or a budget
}
