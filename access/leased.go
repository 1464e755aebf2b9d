package access

import "github.com/pawl-work/pawl"

// Leased returns the pass of the holder of a lease, whose token a service has checked: a claimer in
// the namespace of the item. Which item it may call about is for the caller to check. It reads what
// a resume state of the item holds.
func Leased(t pawl.TaskToken) Pass {
	return Pass{leased: true, Key: &pawl.APIKey{Name: "the lease of " + t.ItemID, Namespace: t.Namespace, Roles: []string{"claimer"}}}
}
