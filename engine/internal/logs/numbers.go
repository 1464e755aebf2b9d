package logs

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"github.com/pawl-work/pawl/store"
)

// numberSet is a set of numbers. The zero value is empty. A change costs the spans near it, not
// all of them.
type numberSet struct {
	parts map[int64]spans // by the number, shifted by partBits
}

// A part of a set may have partSize numbers.
const (
	partBits = 12
	partSize = 1 << partBits
)

// each passes the part of a span that is in each part of the set to fn.
func (numberSet) each(x store.Span, fn func(part int64, x store.Span)) {
	for low := x.Low; low <= x.High; {
		part := low >> partBits
		high := min(x.High, (part+1)*partSize-1)
		fn(part, store.Span{Low: low, High: high})
		low = high + 1
	}
}

func (s numberSet) has(n int64) bool { return s.parts[n>>partBits].has(n) }

// size is how many numbers are in the set.
func (s numberSet) size() (n int64) {
	for x := range s.all() {
		n += x.High - x.Low + 1
	}
	return n
}

func (s *numberSet) add(x store.Span) {
	if s.parts == nil {
		s.parts = map[int64]spans{}
	}
	s.each(x, func(part int64, x store.Span) {
		p := s.parts[part]
		p.add(x)
		s.parts[part] = p
	})
}

// remove removes the numbers of a span and returns those that were in the set.
func (s *numberSet) remove(x store.Span) (out []store.Span) {
	s.each(x, func(part int64, x store.Span) {
		p, there := s.parts[part]
		if !there {
			return
		}
		out = append(out, p.remove(x)...)
		if s.parts[part] = p; len(p) == 0 {
			delete(s.parts, part)
		}
	})
	return out
}

// all passes the spans of the set, in order. A span may go on in the next one.
func (s numberSet) all() iter.Seq[store.Span] {
	return func(yield func(store.Span) bool) {
		for _, part := range slices.Sorted(maps.Keys(s.parts)) {
			for _, x := range s.parts[part] {
				if !yield(x) {
					return
				}
			}
		}
	}
}

// first lists up to limit numbers of the set, in order.
func (s numberSet) first(limit int) (out []int64) {
	for x := range s.all() {
		for id := x.Low; id <= x.High; id++ {
			if len(out) == limit {
				return out
			}
			out = append(out, id)
		}
	}
	return out
}

// spans are a set of numbers: sorted spans that do not touch each other.
type spans []store.Span

// from returns the index of the first span that ends at n or above.
func (s spans) from(n int64) int {
	i, _ := slices.BinarySearchFunc(s, n, func(x store.Span, n int64) int { return cmp.Compare(x.High, n) })
	return i
}

func (s spans) has(n int64) bool {
	i := s.from(n)
	return i < len(s) && s[i].Low <= n
}

func (s *spans) add(x store.Span) {
	i := s.from(x.Low - 1)
	j := i
	for ; j < len(*s) && (*s)[j].Low <= x.High+1; j++ {
		x.Low, x.High = min(x.Low, (*s)[j].Low), max(x.High, (*s)[j].High)
	}
	*s = slices.Replace(*s, i, j, x)
}

// remove removes the numbers of a span and returns those that were in the set.
func (s *spans) remove(x store.Span) (out spans) {
	i := s.from(x.Low)
	j := i
	var kept []store.Span
	for ; j < len(*s) && (*s)[j].Low <= x.High; j++ {
		was := (*s)[j]
		out = append(out, store.Span{Low: max(was.Low, x.Low), High: min(was.High, x.High)})
		if was.Low < x.Low {
			kept = append(kept, store.Span{Low: was.Low, High: x.Low - 1})
		}
		if was.High > x.High {
			kept = append(kept, store.Span{Low: x.High + 1, High: was.High})
		}
	}
	*s = slices.Replace(*s, i, j, kept...)
	return out
}
