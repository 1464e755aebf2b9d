package access

import (
	"slices"
	"strings"

	"github.com/pawl-work/pawl"
)

// Groups says which roles the members of groups have.
type Groups []groupRoles

type groupRoles struct {
	group  string
	grants []Grant
}

// ParseGroups reads entries of the form GROUP=ROLE,ROLE or GROUP=ROLE,ROLE@NAMESPACE,NAMESPACE.
// The last = ends the group. Without a namespace it is the default one; * is all of them.
func ParseGroups(entries []string) (Groups, error) {
	var out Groups
	for _, entry := range entries {
		at := strings.LastIndexByte(entry, '=')
		if at <= 0 {
			return nil, pawl.Invalid("", "%q is to be GROUP=ROLE,ROLE@NAMESPACE", entry)
		}
		roles, namespaces, named := strings.Cut(entry[at+1:], "@")
		if !named {
			namespaces = pawl.DefaultNamespace
		}
		g := groupRoles{group: entry[:at]}
		for namespace := range strings.SplitSeq(namespaces, ",") {
			if namespace == "" || len(namespace) > pawl.MaxIDLen {
				return nil, pawl.Invalid("", "%q has a namespace without a name, or over %d bytes", entry, pawl.MaxIDLen)
			}
			g.grants = append(g.grants, Grant{namespace, strings.Split(roles, ",")})
		}
		for role := range strings.SplitSeq(roles, ",") {
			if !slices.Contains(pawl.KeyRoles, role) {
				return nil, pawl.Invalid("", "%q names no role %q; the roles are %s", entry, role, strings.Join(pawl.KeyRoles, ", "))
			}
		}
		out = append(out, g)
	}
	return out, nil
}

// Grants returns the roles of a member of groups, by namespace, in the order of the entries.
func (g Groups) Grants(groups []string) []Grant {
	var out []Grant
	for _, entry := range g {
		if !slices.Contains(groups, entry.group) {
			continue
		}
		for _, grant := range entry.grants {
			i := slices.IndexFunc(out, func(had Grant) bool { return had.Namespace == grant.Namespace })
			if i < 0 {
				i, out = len(out), append(out, Grant{Namespace: grant.Namespace})
			}
			for _, role := range grant.Roles {
				if !slices.Contains(out[i].Roles, role) {
					out[i].Roles = append(out[i].Roles, role)
				}
			}
		}
	}
	return out
}
