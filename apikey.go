package pawl

import "time"

// AnyNamespace is the namespace of an API key that may name any.
const AnyNamespace = "*"

// KeyRoles are the roles that an API key may hold, after the interfaces of
// Service.
var KeyRoles = []string{"submitter", "claimer", "approver", "operator", "reader"}

// APIKey says who may call a server: in which namespace, in which roles, and by
// what name events know him. Of its token nothing is kept but a hash.
type APIKey struct {
	ID         string     `json:"id"`
	Namespace  string     `json:"namespace"` // AnyNamespace: whichever the call names
	Name       string     `json:"name"`
	Roles      []string   `json:"roles"`
	Payloads   bool       `json:"payloads"`       // reads payloads, whatever its roles
	Rate       int        `json:"rate,omitempty"` // calls a second; 0 = the server's default
	ActorType  string     `json:"actor_type"`
	ActorID    string     `json:"actor_id"`
	Refusals   int64      `json:"refusals"` // calls refused for want of a role, a namespace or patience
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"` // to within half a minute
}

// NewAPIKey asks for an API key.
type NewAPIKey struct {
	Name      string // who holds it
	Namespace string // "" = DefaultNamespace
	Roles     []string
	Payloads  bool
	Rate      int           // calls a second; 0 = the server's default
	ActorType string        // "" = ActorAPI
	ActorID   string        // "" = Name
	Expires   time.Duration // 0 = never
}

// APIKeyUse is what a server has seen of a key since it last said.
type APIKeyUse struct {
	ID       string
	Refusals int64
}
