package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
)

// series holds the values of one measurement, one per round.
type series []float64

func (s series) sorted() series {
	c := slices.Clone(s)
	slices.Sort(c)
	return c
}

func (s series) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	c := s.sorted()
	return (c[(len(c)-1)/2] + c[len(c)/2]) / 2
}

// quantile returns the quantile q of the values, by nearest rank.
func (s series) quantile(q float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	return s.sorted()[max(0, int(math.Ceil(q*float64(len(s))))-1)]
}

// over returns the ratio of each round.
func (s series) over(t series) series {
	out := make(series, min(len(s), len(t)))
	for i := range out {
		out[i] = s[i] / t[i]
	}
	return out
}

// String returns the median and, of several values, the range.
func (s series) String() string { return s.in("") }

// in returns the same with a unit.
func (s series) in(unit string) string {
	if len(s) < 2 {
		return figure(s.median()) + unit
	}
	c := s.sorted()
	return fmt.Sprintf("%s%s [%s..%s]", figure(c.median()), unit, figure(c[0]), figure(c[len(c)-1]))
}

// figure writes a number with three digits, and thousands as k.
func figure(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v):
		return "nothing"
	case a >= 100_000:
		return strconv.FormatFloat(v/1000, 'f', 0, 64) + "k"
	case a >= 10_000:
		return trim(strconv.FormatFloat(v/1000, 'f', 1, 64)) + "k"
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return trim(strconv.FormatFloat(v, 'f', 1, 64))
	}
	return trim(strconv.FormatFloat(v, 'f', 2, 64))
}

// trim removes trailing zeros.
func trim(s string) string {
	for s[len(s)-1] == '0' {
		s = s[:len(s)-1]
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}

func perSecond(n int, took time.Duration) float64 { return float64(n) / took.Seconds() }

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
