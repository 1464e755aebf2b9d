// Package relays is the room of relays: how far each sink has got with the events that servers send to it, and which
// server sends.
package relays

import "github.com/pawl-work/pawl/engine/internal/kernel"

// Relays are the relays of a database.
type Relays struct{ k *kernel.Kernel }

// New returns the relays of a database.
func New(k *kernel.Kernel) *Relays { return &Relays{k} }

// Declared is the declaration of the room. Its rows are of no task. The feed and the sweep keep their own positions in
// the same table, under other names.
func Declared() kernel.Room {
	return kernel.Room{Name: "relays", Tables: []kernel.Table{{Name: "relay_cursors", Key: "sink", Plain: []string{"sink", "detail"},
		Changes: "with each batch that a sink confirms; of a relay that is disabled a failed task tells"}}}
}
