package pawl

import "time"

// NoNamespace returns the refusal of AnyNamespace where one namespace is wanted.
func NoNamespace() *Error {
	return &Error{Code: CodeInvalid, Message: "the namespace * stands for all of them, in API keys alone: name one namespace"}
}

// APIKey is the description of an API key: its namespace, its roles and the actor that
// events name. The token itself is not stored, only a hash.
type APIKey struct {
	ID         string     `json:"id"`
	Namespace  string     `json:"namespace"` // AnyNamespace: the one that the call names
	Name       string     `json:"name"`
	Roles      []string   `json:"roles"`
	Payloads   bool       `json:"payloads"`       // may read payloads, whatever its roles
	Rate       int        `json:"rate,omitempty"` // calls a second; 0 = the server's default
	ActorType  string     `json:"actor_type"`
	ActorID    string     `json:"actor_id"`
	Refusals   int64      `json:"refusals"` // calls refused because of a role, a namespace or a rate
	CreatedAt  time.Time  `json:"created_at"`
	ExpiresAt  *time.Time `json:"expires_at,omitempty"`
	RevokedAt  *time.Time `json:"revoked_at,omitempty"`
	LastUsedAt *time.Time `json:"last_used_at,omitempty"` // accurate to half a minute
}

// NewAPIKey describes an API key to create.
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

// APIKeyUse reports uses of a key since the last report.
type APIKeyUse struct {
	ID       string
	Refusals int64
}
