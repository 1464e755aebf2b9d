package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"strings"
)

// report prints one line per target.
type report struct {
	out                 io.Writer
	json                bool            // each line is a JSON object
	known               map[string]bool // misses that the document lists as known
	passes, knows, miss int
}

// line is one target and its measurement.
type line struct {
	name     string
	got      series // the measured values; their median counts
	unit     string
	atLeast  float64 // the target; only one of the two is set
	atMost   float64
	absolute string // the numbers behind a ratio
	peer     string
}

// object is a line in JSON. A number is null if nothing was measured.
type object struct {
	Name    string   `json:"name"`
	Value   *float64 `json:"value"` // the median of the rounds
	Unit    string   `json:"unit"`
	Low     *float64 `json:"low"` // of the rounds
	High    *float64 `json:"high"`
	Target  string   `json:"target"`
	Verdict string   `json:"verdict"` // PASS, KNOWN, MISS or SKIP
	Peer    string   `json:"peer"`
}

// number returns v, or nil for a value that JSON cannot hold.
func number(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func (r *report) print(o object) {
	raw, _ := json.Marshal(o) // strings and finite numbers
	fmt.Fprintf(r.out, "%s\n", raw)
}

func newReport(out io.Writer, performance string) (report, error) {
	known, err := knownMisses(performance)
	return report{out: out, known: known}, err
}

// missesBegin and missesEnd enclose the table of known misses in docs/performance.md.
const (
	missesBegin = "<!-- known misses -->"
	missesEnd   = "<!-- end of known misses -->"
)

// knownMisses reads the names in the first column of the marked table.
func knownMisses(path string) (map[string]bool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	_, rest, found := strings.Cut(string(raw), missesBegin)
	table, _, ended := strings.Cut(rest, missesEnd)
	if !found || !ended {
		return nil, fmt.Errorf("%s has no table of known misses between %s and %s", path, missesBegin, missesEnd)
	}
	known := map[string]bool{}
	for i, row := range strings.Split(strings.TrimSpace(table), "\n") {
		cells := strings.Split(row, "|")
		if i >= 2 && len(cells) > 3 { // below the header
			known[strings.TrimSpace(cells[1])] = true
		}
	}
	return known, nil
}

// add judges and prints a line.
func (r *report) add(l line) {
	got, ok, target := l.got.median(), false, ""
	if l.atLeast != 0 {
		ok, target = got >= l.atLeast, "≥ "+figure(l.atLeast)+l.unit
	} else {
		ok, target = got <= l.atMost, "≤ "+figure(l.atMost)+l.unit
	}
	verdict := "MISS"
	switch {
	case ok:
		verdict = "PASS"
		r.passes++
	case r.known[l.name]:
		verdict = "KNOWN"
		r.knows++
	default:
		r.miss++
	}
	if r.json {
		r.print(object{l.name, number(got), strings.TrimSpace(l.unit), number(l.got.quantile(0)), number(l.got.quantile(1)),
			target, verdict, l.peer})
		return
	}
	measured := l.got.in(l.unit)
	if l.absolute != "" {
		measured += " (" + l.absolute + ")"
	}
	fmt.Fprintf(r.out, "%-5s  %-46s  %s  %s  %s\n", verdict, l.name, measured, target, cmp.Or(l.peer, "–"))
}

// broken reports a section that could not be measured; it counts as a miss.
func (r *report) broken(name string, err error) {
	r.miss++
	if r.json {
		r.print(object{Name: name, Verdict: "MISS"})
		fmt.Fprintf(os.Stderr, "# %s: not measured: %v\n", name, err)
		return
	}
	fmt.Fprintf(r.out, "%-5s  %-46s  not measured: %v\n", "MISS", name, err)
}

// skip reports what cannot be measured on this machine, and why. It is no miss.
func (r *report) skip(name, reason string) {
	if r.json {
		r.print(object{Name: name, Verdict: "SKIP", Peer: reason})
		return
	}
	fmt.Fprintf(r.out, "%-5s  %-46s  not measured: %s\n", "SKIP", name, reason)
}

// close prints the totals and returns the exit code.
func (r *report) close() int {
	fmt.Fprintf(os.Stderr, "# %d passed, %d known misses, %d missed\n", r.passes, r.knows, r.miss)
	if r.miss > 0 {
		return 1
	}
	return 0
}

func machine() string {
	return fmt.Sprintf("%d CPUs, %s/%s, %s", runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, runtime.Version())
}
