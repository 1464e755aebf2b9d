// Package cost limits what a call may cost in a fuzz test: processor time and memory, in
// proportion to the input.
package cost

import (
	"runtime/metrics"
	"testing"
	"time"
)

// These constants are the budget of a call. It is generous: machines are shared, fuzzed code
// is instrumented, and work beside the call counts too. It finds cost that grows faster than
// the input.
const (
	timePerByte  = 50 * time.Microsecond
	bytesPerByte = 4 << 10
)

// Base is what a call may cost, whatever its input.
type Base struct {
	Time  time.Duration
	Bytes int
}

// Check is Base.Check with a base that fits most calls.
func Check(t testing.TB, input int, fn func()) {
	t.Helper()
	Base{250 * time.Millisecond, 16 << 20}.Check(t, input, fn)
}

// Check fails the test if fn takes more processor time, or allocates more memory, than an
// input of this many bytes may cost.
func (b Base) Check(t testing.TB, input int, fn func()) {
	t.Helper()
	spent, took := Of(fn)
	if most := b.Time + time.Duration(input)*timePerByte; spent > most {
		t.Errorf("an input of %d bytes took %v of processor time, at most %v are allowed", input, spent, most)
	}
	if most := uint64(b.Bytes + input*bytesPerByte); took > most {
		t.Errorf("an input of %d bytes took %d bytes of memory, at most %d are allowed", input, took, most)
	}
}

// Of returns the processor time that this process takes while fn runs, and how many bytes it
// allocates.
func Of(fn func()) (time.Duration, uint64) {
	time0, bytes0 := processorTime(), allocated()
	fn()
	return processorTime() - time0, allocated() - bytes0
}

// allocated returns how many bytes this process has allocated so far, including freed ones.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
