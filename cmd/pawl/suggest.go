package main

// nearest is the known word at most two edits away.
func nearest(word string, known []string) string {
	best, at := 3, ""
	for _, k := range known {
		if d := edits(word, k); d < best {
			best, at = d, k
		}
	}
	return at
}

func edits(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
