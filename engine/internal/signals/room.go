// Package signals is the room of signals: what callers send by a name and a key, and the items that wait for it.
package signals

import (
	"embed"

	"github.com/pawl-work/pawl/engine/internal/kernel"
	"github.com/pawl-work/pawl/store"
)

//go:embed *.sql
var sqlFiles embed.FS

var texts = store.Texts(sqlFiles, "signal.sql")

// Signals are the signals of a database.
type Signals struct{ k *kernel.Kernel }

// New returns the signals of a database, and gives the kernel what others ask of them.
func New(k *kernel.Kernel) *Signals {
	k.Signals = asked{}
	return Over(k)
}

// Over returns the signals over another Kernel of the same database.
func Over(k *kernel.Kernel) *Signals { return &Signals{k} }

// asked implements kernel.Signals.
type asked struct{}

// Declared is the declaration of the room. Its rows are of no task: a signal stays when the items that waited for it are gone.
func Declared() kernel.Room {
	var seen signal
	return kernel.Room{
		Name: "signals",
		Tables: []kernel.Table{{Name: "signals", Key: "namespace", Values: []string{"payload"},
			Plain: []string{"namespace", "name", "key", "waking"}, Changes: "when it is sent; of the items that it wakes events tell"}},
		Steps: []store.Step{
			{Name: "old signals", Run: removeOld, Preview: countOld},
			{Name: "unsent signals", Run: seen.removeUnsent},
		},
		Rules: []store.RuleSearch{{Rule: store.Rule{Name: "signals", Says: "no item waits for a signal that was sent, except for one that is " +
			"still waking its items", Repair: "send the signal again"}, SQL: texts["sent and waited for"]}},
	}
}
