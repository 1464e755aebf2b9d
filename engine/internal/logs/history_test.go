package logs_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/engine/internal/logs"
	"github.com/pawl-work/pawl/pawltest"
)

// epochSays returns the doctor's warning of the epoch that began, or "".
func epochSays(t *testing.T, e *engine.Engine) (detail, command string) {
	t.Helper()
	for _, w := range need[[]engine.Warning](t)(e.Warnings(t.Context())) {
		if w.Code == "epoch" {
			return w.Detail, w.Command
		}
	}
	return "", ""
}

// beginEpoch has the database say that an epoch began at its newest position.
func (c *logged) beginEpoch() {
	c.Helper()
	var position int64
	var text string
	c.read("SELECT position, detail FROM pawl.relay_cursors WHERE sink = 'feed'", &position, &text)
	var detail map[string]any
	c.ok(nil, json.Unmarshal([]byte(text), &detail))
	detail["epoch"], detail["epochs"] = 1, []map[string]int64{{"epoch": 1, "position": position}}
	b, err := json.Marshal(detail)
	c.ok(string(b), err)
	c.ok(nil, c.Exec("UPDATE pawl.relay_cursors SET detail = '"+string(b)+"' WHERE sink = 'feed'"))
}

// The doctor says of an epoch what the log's own checkpoints tell: that nothing is lost, what is
// lost, that the log was changed, or that nothing can be told.
func TestTheDoctorSaysWhatAnEpochLost(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.someEvents()
		if detail, _ := epochSays(t, c.Engine); detail != "" {
			t.Errorf("without an epoch: %s", detail)
		}
		c.beginEpoch()
		says := func(e *engine.Engine, want, run string) {
			t.Helper()
			if detail, command := epochSays(t, e); !strings.Contains(detail, want) || !strings.Contains(detail, "epoch 1 of the feed") ||
				command != run {
				t.Errorf("%s (%s), want %q (%s)", detail, command, want, run)
			}
		}
		says(c.Engine, "nothing that was signed is lost, because the log continues the checkpoint of 8 leaves", "pawl verify --all")
		says(c.Another(withKey(t)), "cannot be told here", "pawl verify --all")
		var kept string
		c.read("SELECT note FROM pawl.log_checkpoints", &kept)
		c.ok(nil, c.Exec("UPDATE pawl.log_runs SET leaves = "+zeros(c.Database)))
		says(c.Engine, "cannot be told, because the log was changed", "pawl verify --all")
		if got, err := c.Engine.VerifySince(t.Context(), kept, nil); err != nil || !strings.Contains(got.Found, "leaves before it were changed") {
			t.Errorf("since: %+v, %v", got, err)
		}
		c.ok(nil, c.Exec("DELETE FROM pawl.log_checkpoints")) // as in an earlier copy
		says(c.Engine, "of the 8 leaves that were signed, some after leaf 0 are lost", "pawl log fork")
		need[engine.LogFork](t)(c.Engine.ForkLog(t.Context()))
		says(c.Engine, "the log was forked, and 8 signed leaves after leaf 0 are lost", "pawl verify --all")
	})
}

// zeros is an expression for as many zero bytes as leaves has.
func zeros(which pawltest.Database) string {
	if which == pawltest.SQLite {
		return "zeroblob(length(leaves))"
	}
	return "decode(repeat('00', length(leaves)), 'hex')"
}

// A signer whose log is no continuation of what it has signed tries again after growing pauses.
func TestASignerThatIsRefusedBacksOff(t *testing.T) {
	t.Parallel()
	pauses := logs.SignPauses(12)
	if pauses[0] != time.Second || pauses[1] != 2*time.Second || pauses[11] != time.Minute {
		t.Errorf("the pauses are %v", pauses)
	}
}
