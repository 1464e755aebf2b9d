// Package nearest finds the word that was probably meant.
package nearest

// Of is the known word that was probably meant, "" when none is near.
func Of(word string, known []string) string {
	best, at := Allowed(word)+1, ""
	for _, k := range known {
		if d := Edits(word, k); d < best {
			best, at = d, k
		}
	}
	return at
}

// Allowed is how many slips a word may hold: with two in three letters every
// word is like every other.
func Allowed(word string) int { return min(len(word)/3, 2) }

// Edits counts the letters to put in, take out, change or swap with the next.
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
