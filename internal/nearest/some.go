package nearest

import (
	"slices"
	"strings"
)

// most is how many words Some returns.
const most = 3

// Some returns up to three known words that may be meant by another one, the nearest first:
// those that differ by a slip, and those that begin like it.
func Some(word string, known []string) []string {
	type found struct {
		word  string
		edits int
	}
	var near []found
	lower := strings.ToLower(word)
	for _, k := range known {
		d := within(lower, strings.ToLower(k))
		begins := len(word) > 2 && len(k) > 2 && (strings.HasPrefix(k, word) || strings.HasPrefix(word, k))
		if k != word && (d <= Allowed(word) || begins) {
			near = append(near, found{k, d})
		}
	}
	slices.SortStableFunc(near, func(a, b found) int { return a.edits - b.edits })
	var out []string
	for _, f := range near[:min(len(near), most)] {
		out = append(out, f.word)
	}
	return out
}

// Question returns "; did you mean …?" with the known words that may be meant by another one; "" if there
// are none. It is the end of an error about a word that is not known.
func Question(word string, known []string) string {
	near := Some(word, known)
	if len(near) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(near, " or ") + "?"
}
