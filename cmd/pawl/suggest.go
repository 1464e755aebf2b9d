package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// nearest is the known word that was probably meant, "" when none is near.
func nearest(word string, known []string) string {
	best, at := allowedEdits(word)+1, ""
	for _, k := range known {
		if d := edits(word, k); d < best {
			best, at = d, k
		}
	}
	return at
}

// allowedEdits is how many slips a word may hold: with two in three letters every
// word is like every other.
func allowedEdits(word string) int { return min(len(word)/3, 2) }

// unknownVerb is the error of a word that is no command of cmd, with those that
// were probably meant: the nearest ones, and those that begin with the word.
func unknownVerb(cmd *cobra.Command, word string) error {
	best := allowedEdits(word)
	var near, begun []string
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() {
			continue
		}
		if d := edits(word, c.Name()); d < best {
			best, near = d, []string{c.Name()}
		} else if d == best && d > 0 {
			near = append(near, c.Name())
		}
		if len(word) > 1 && strings.HasPrefix(c.Name(), word) {
			begun = append(begun, c.Name())
		}
	}
	meant := slices.Compact(slices.Sorted(slices.Values(append(near, begun...))))
	text := fmt.Sprintf("there is no command %q here", cmd.CommandPath()+" "+word)
	if len(meant) > 0 {
		text += "; did you mean " + strings.Join(meant, " or ") + "?"
	}
	return usage(cmd, fmt.Errorf("%s", text))
}

// edits counts the letters to put in, take out, change or swap with the next.
func edits(a, b string) int {
	rows := make([][]int, len(a)+1)
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
		rows[i][0] = i
	}
	for j := range len(b) {
		rows[0][j+1] = j + 1
		for i := range len(a) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			rows[i+1][j+1] = min(rows[i][j]+cost, rows[i][j+1]+1, rows[i+1][j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				rows[i+1][j+1] = min(rows[i+1][j+1], rows[i-1][j-1]+1)
			}
		}
	}
	return rows[len(a)][len(b)]
}
