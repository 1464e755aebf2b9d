package feed

import (
	"slices"

	"github.com/pawl-work/pawl/store"
)

// missing returns the numbers of (above, upTo] that are not in seen, which is sorted.
func missing(above, upTo int64, seen []int64) []store.Span {
	var out []store.Span
	next := above + 1
	for _, id := range seen {
		if id > next {
			out = append(out, store.Span{Low: next, High: id - 1})
		}
		next = id + 1
	}
	if next <= upTo {
		out = append(out, store.Span{Low: next, High: upTo})
	}
	return out
}

// removeNumbers removes sorted numbers from sorted spans.
func removeNumbers(spans []store.Span, seen []int64) []store.Span {
	if len(seen) == 0 {
		return spans
	}
	var out []store.Span
	for _, s := range spans {
		from, _ := slices.BinarySearch(seen, s.Low)
		to, found := slices.BinarySearch(seen, s.High)
		if found {
			to++
		}
		out = append(out, missing(s.Low-1, s.High, seen[from:to])...)
	}
	return out
}

// intersect is the intersection of two sorted lists of spans.
func intersect(a, b []store.Span) []store.Span {
	var out []store.Span
	for len(a) > 0 && len(b) > 0 {
		if low, high := max(a[0].Low, b[0].Low), min(a[0].High, b[0].High); low <= high {
			out = append(out, store.Span{Low: low, High: high})
		}
		if a[0].High < b[0].High {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return out
}

// subtract returns the parts of a that are not in b; both are sorted.
func subtract(a, b []store.Span) []store.Span {
	var out []store.Span
	for _, s := range a {
		for len(b) > 0 && b[0].High < s.Low {
			b = b[1:]
		}
		low := s.Low
		for _, cut := range b {
			if cut.Low > s.High {
				break
			}
			if cut.Low > low {
				out = append(out, store.Span{Low: low, High: cut.Low - 1})
			}
			low = cut.High + 1
		}
		if low <= s.High {
			out = append(out, store.Span{Low: low, High: s.High})
		}
	}
	return out
}
