package cost_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/internal/cost"
)

// recorder records the errors of a test.
type recorder struct {
	testing.TB
	failed []string
}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, _ ...any) { r.failed = append(r.failed, format) }

var kept []byte

func TestWhatCostsTooMuchFails(t *testing.T) {
	for _, c := range []struct {
		name string
		call func()
		want string
	}{
		{"little", func() {}, ""},
		{"memory", func() {
			for range 64 {
				kept = make([]byte, 1<<20)
			}
		}, "bytes of memory"},
		{"time", func() {
			for began := time.Now(); time.Since(began) < 2*time.Second; {
				if strings.Count(strings.Repeat("a", 1000), "b") > 0 {
					return
				}
			}
		}, "of processor time"},
	} {
		r := &recorder{TB: t}
		cost.Check(r, 10, c.call)
		if all := strings.Join(r.failed, "; "); !strings.Contains(all, c.want) || (c.want == "") != (all == "") {
			t.Errorf("%s: %q", c.name, all)
		}
	}
}
