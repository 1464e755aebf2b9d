package logs

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/pawl-work/pawl/store"
)

// A set of numbers has the numbers that were added and not removed.
func TestNumberSet(t *testing.T) {
	t.Parallel()
	for range 15 {
		var s numberSet
		plain := map[int64]bool{}
		top := []int64{20, 3 * partSize, 10 * partSize}[rand.IntN(3)]
		for range 100 {
			low := rand.Int64N(top)
			x := store.Span{Low: low, High: low + rand.Int64N(top/4+1)}
			add := rand.IntN(2) == 0
			var want, got []int64
			for n := x.Low; n <= x.High; n++ {
				if add {
					plain[n] = true
				} else if plain[n] {
					want = append(want, n)
					delete(plain, n)
				}
			}
			if add {
				s.add(x)
			} else {
				for _, r := range s.remove(x) {
					for n := r.Low; n <= r.High; n++ {
						got = append(got, n)
					}
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("removed %v, want %v", got, want)
			}
		}
		var all []int64
		for n := range top + top/4 + 2 {
			if s.has(n) != plain[n] {
				t.Fatalf("%d: %v, want %v", n, s.has(n), plain[n])
			}
			if plain[n] {
				all = append(all, n)
			}
		}
		if s.size() != int64(len(all)) || !slices.Equal(s.first(7), all[:min(7, len(all))]) {
			t.Fatalf("%d numbers, want %d; the first are %v", s.size(), len(all), s.first(7))
		}
	}
}

// Many separate numbers are removed in time that grows with their count alone.
func TestNumberSetOfSeparateNumbers(t *testing.T) {
	const many = 1_000_000
	var s numberSet
	began := time.Now()
	for n := range int64(many) {
		s.add(store.Span{Low: 2 * n, High: 2 * n})
	}
	for n := range int64(many) {
		if out := s.remove(store.Span{Low: 2 * n, High: 2*n + 1}); len(out) != 1 {
			t.Fatal(n, out)
		}
	}
	t.Log(time.Since(began))
	if took := time.Since(began); s.size() != 0 || took > 20*time.Second {
		t.Errorf("%d are left after %v", s.size(), took)
	}
}
