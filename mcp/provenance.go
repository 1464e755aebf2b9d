package mcp

import (
	"context"
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
)

// ProvenanceMeta is the member of a call's _meta in which an agent adds to its client's
// provenance: members of pawl.Provenance, such as model.
const ProvenanceMeta = "io.github.pawl-work/provenance"

// withProvenance adds the provenance of a call: the client's name and version, the agent by the
// worker of the call or the caller's name, and the members of _meta.
func withProvenance(ctx context.Context, client *sdk.Implementation, meta sdk.Meta) (_ context.Context, p pawl.Provenance, _ error) {
	if client != nil {
		p.AgentName, p.AgentVersion = short(client.Name), short(client.Version)
	}
	if said, ok := meta[ProvenanceMeta]; ok {
		b, err := json.Marshal(said)
		if err == nil {
			err = json.Unmarshal(b, &p)
		}
		if err != nil {
			return ctx, p, pawl.Invalid("/_meta/"+strings.ReplaceAll(ProvenanceMeta, "/", "~1"),
				"is to be an object: agent_id, agent_name, agent_version, model, request_fingerprint, extra")
		}
	}
	if p.IdempotencyKey == "" { // a service behind this server is given another one
		p.IdempotencyKey, _ = keyOf(meta) // one that is not valid is refused where it is used
	}
	return pawl.WithProvenance(ctx, p), p, nil
}

// short truncates a name to its limit.
func short(s string) string {
	if r := []rune(s); len(r) > pawl.MaxIDLen {
		return string(r[:pawl.MaxIDLen])
	}
	return s
}
