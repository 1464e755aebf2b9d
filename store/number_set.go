package store

import (
	"cmp"
	"slices"
)

// numberSet is a set of numbers: sorted spans that do not touch each other.
type numberSet []Span

// from returns the index of the first span that ends at n or above.
func (s numberSet) from(n int64) int {
	i, _ := slices.BinarySearchFunc(s, n, func(x Span, n int64) int { return cmp.Compare(x.High, n) })
	return i
}

func (s numberSet) has(n int64) bool {
	i := s.from(n)
	return i < len(s) && s[i].Low <= n
}

// size is how many numbers are in the set.
func (s numberSet) size() (n int64) {
	for _, x := range s {
		n += x.High - x.Low + 1
	}
	return n
}

func (s *numberSet) add(x Span) {
	i := s.from(x.Low - 1)
	j := i
	for ; j < len(*s) && (*s)[j].Low <= x.High+1; j++ {
		x.Low, x.High = min(x.Low, (*s)[j].Low), max(x.High, (*s)[j].High)
	}
	*s = slices.Replace(*s, i, j, x)
}

// remove removes the numbers of a span and returns those that were in the set.
func (s *numberSet) remove(x Span) (out numberSet) {
	i := s.from(x.Low)
	j := i
	var kept []Span
	for ; j < len(*s) && (*s)[j].Low <= x.High; j++ {
		was := (*s)[j]
		out = append(out, Span{max(was.Low, x.Low), min(was.High, x.High)})
		if was.Low < x.Low {
			kept = append(kept, Span{was.Low, x.Low - 1})
		}
		if was.High > x.High {
			kept = append(kept, Span{x.High + 1, was.High})
		}
	}
	*s = slices.Replace(*s, i, j, kept...)
	return out
}

// first lists up to limit numbers of the set, in order.
func (s numberSet) first(limit int) (out []int64) {
	for _, x := range s {
		for id := x.Low; id <= x.High; id++ {
			if len(out) == limit {
				return out
			}
			out = append(out, id)
		}
	}
	return out
}

// runsOf returns the runs of consecutive numbers in a list.
func runsOf(ids []int64) (out numberSet) {
	for _, id := range ids {
		out.add(Span{id, id})
	}
	return out
}
