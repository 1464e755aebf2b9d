package mcp

import "github.com/pawl-work/pawl/api"

// ToolRoles are the roles of the table of tools.
func ToolRoles() map[string]api.Role {
	out := map[string]api.Role{}
	for _, t := range tools() {
		out[t.Name] = t.route.Role
	}
	return out
}
