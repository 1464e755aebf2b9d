package store

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/pawl-work/pawl/internal/cost"
)

// apply reads the whole text of a delta.
func apply(base, delta []byte, size int) ([]byte, error) {
	text := make([]byte, size)
	spans := []span{{0, 0, size}}
	if size == 0 {
		spans = nil
	}
	spans, err := readDelta(text, delta, spans)
	if err != nil {
		return nil, err
	}
	whole := Blob{Body: base}
	_, err = whole.read(text, spans)
	return text, err
}

// A delta gives back its text exactly, whatever was inserted, removed, moved or repeated.
func TestDeltasAreExact(t *testing.T) {
	for seed := range uint64(2000) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		random := func(n int) []byte {
			out := make([]byte, n)
			for i := range out {
				out[i] = byte(rnd.IntN(1 + rnd.IntN(256)))
			}
			return out
		}
		base := random(rnd.IntN(2000))
		target := bytes.Clone(base)
		for range rnd.IntN(6) {
			at, to := rnd.IntN(len(target)+1), rnd.IntN(len(target)+1)
			at, to = min(at, to), max(at, to)
			piece := bytes.Clone(target[at:to])
			switch rnd.IntN(4) {
			case 0:
				target = append(target[:at:at], append(random(rnd.IntN(200)), target[at:]...)...)
			case 1:
				target = append(target[:at:at], target[to:]...)
			case 2:
				target = append(target, piece...)
			default:
				target = append(append(target[:at:at], target[to:]...), piece...)
			}
		}
		d := makeDelta(base, target)
		got, err := apply(base, d, len(target))
		if err != nil || !bytes.Equal(got, target) {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if len(d) > len(target)+16 {
			t.Errorf("seed %d: %d bytes for a text of %d", seed, len(d), len(target))
		}
	}
}

// A delta finds what both texts have although something before, within and after it changed.
func TestDeltasAreSmall(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	same := make([]byte, 100_000)
	for i := range same {
		same[i] = byte(rnd.Uint32())
	}
	base := append([]byte(`{"at":1,"messages":`), same...)
	target := append([]byte(`{"at":20000,"messages":`), same[:40_000]...)
	target = append(append(target, "changed"...), same[40_007:]...)
	target = append(target, "and more"...)
	if n := len(makeDelta(base, target)); n > 150 {
		t.Errorf("%d bytes", n)
	}
}

// A delta that was changed gives an error or another text, and never reads beyond its base.
func FuzzReadDelta(f *testing.F) {
	f.Add([]byte("some text that is the base of another"), makeDelta([]byte("some text"), []byte("some other text")), uint16(40))
	f.Fuzz(func(t *testing.T, base, delta []byte, size uint16) {
		var text []byte
		var err error
		cost.Check(t, len(base)+len(delta), func() { text, err = apply(base, delta, int(size)) })
		if err == nil && len(text) != int(size) {
			t.Errorf("%d bytes instead of %d", len(text), size)
		}
	})
}
