package apikeys

import (
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine/internal/rules"
)

// check checks a new API key.
func check(n *pawl.NewAPIKey) error {
	var f rules.Fields
	f.Text("/name", n.Name, 1, pawl.MaxIDLen)
	f.Text("/namespace", n.Namespace, 1, pawl.MaxIDLen)
	f.Text("/actor_id", n.ActorID, 1, pawl.MaxIDLen)
	if strings.Contains(n.ActorID, "/") {
		f.Add("/actor_id", "is %q, by default the name of the key; the name of an actor has no slash", n.ActorID)
	}
	if !slices.Contains(pawl.ActorTypes, n.ActorType) {
		f.Add("/actor_type", "is %q; possible: %s", n.ActorType, strings.Join(pawl.ActorTypes, ", "))
	}
	if len(n.Roles) == 0 {
		f.Add("/roles", "is required; possible: %s", strings.Join(pawl.KeyRoles, ", "))
	}
	for _, r := range n.Roles {
		if !slices.Contains(pawl.KeyRoles, r) {
			f.Add("/roles", "%q is no role; possible: %s", r, strings.Join(pawl.KeyRoles, ", "))
		}
	}
	f.Number("/rate", n.Rate, 0, 1_000_000)
	if n.Expires < 0 || n.Expires > pawl.MaxDelay {
		f.Add("/expires", "must lie ahead, by at most ten years")
	}
	return f.Err("key create")
}
