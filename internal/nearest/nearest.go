// Package nearest finds the known word that a misspelt word probably means.
package nearest

// Of returns the known word that is nearest to word; "" if none is near.
func Of(word string, known []string) string {
	best, at := Allowed(word)+1, ""
	for _, k := range known {
		if d := within(word, k); d < best {
			best, at = d, k
		}
	}
	return at
}

// Allowed returns how many edits away a word may be and still count as near. The number is
// small for short words: with two edits in three letters, every word would be near every
// other.
func Allowed(word string) int { return min(len(word)/3, 2) }

// within is Edits where that may be no more than what is allowed, and otherwise at least more: the words of callers may have
// megabytes.
func within(word, known string) int {
	if apart := max(len(word), len(known)) - min(len(word), len(known)); apart > Allowed(word) {
		return apart
	}
	return Edits(word, known)
}

// Edits returns how many edits turn a into b. An edit inserts, deletes or replaces a letter,
// or swaps two neighbours.
func Edits(a, b string) int {
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
