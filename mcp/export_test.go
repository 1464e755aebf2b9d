package mcp

import "github.com/pawl-work/pawl/api"

// ToolRoles are the roles of the table of tools.
func ToolRoles() map[string]api.Role {
	out := map[string]api.Role{}
	for _, t := range tools() {
		out[t.name] = api.RouteOf(t.route).Role
	}
	return out
}
