// Package apikeys is the room of API keys: who may call, in which namespace, with which roles. The leases that were claimed
// with a key are the work's.
package apikeys

import "github.com/pawl-work/pawl/engine/internal/kernel"

// APIKeys are the API keys of a database.
type APIKeys struct{ k *kernel.Kernel }

// New returns the API keys of a database.
func New(k *kernel.Kernel) *APIKeys { return &APIKeys{k} }

// Declared is the declaration of the room. Its rows are of no task: an event names the id of the key that it was made with.
func Declared() kernel.Room {
	return kernel.Room{Name: "apikeys", Tables: []kernel.Table{{Name: "api_keys", Key: "namespace",
		Plain:   []string{"id", "namespace", "name", "roles", "actor_type", "actor_id", "secret_hash"},
		Changes: "when it is used or revoked; no event tells of it"}}}
}
