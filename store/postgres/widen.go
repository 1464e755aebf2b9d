package postgres

import (
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// wideInserts are how many rows an INSERT has at once. They are few, because each is a prepared
// statement of its own on each connection.
var wideInserts = [...]int{64, 8}

// widenedTexts keeps what widened has made, by text. Texts come from a bounded set.
var widenedTexts sync.Map

var placeholder = regexp.MustCompile(`\$\d+`)

// widened returns an INSERT of one row as an INSERT of several rows, at most n, and how many these
// are. To insert many rows with one statement takes the server a fraction of the time that one
// statement for each takes. Other statements stay as they are, for one row: also an INSERT that
// updates, which must not meet a row twice, and one that has parameters behind its row.
func widened(text string, n int) (wide string, rows int) {
	if n < wideInserts[len(wideInserts)-1] || !strings.HasPrefix(text, "INSERT") {
		return text, 1
	}
	kept, ok := widenedTexts.Load(text)
	if !ok {
		kept, _ = widenedTexts.LoadOrStore(text, widen(text))
	}
	for i, wide := range kept.([]string) {
		if wideInserts[i] <= n {
			return wide, wideInserts[i]
		}
	}
	return text, 1
}

// widen returns the text for each number of wideInserts; nil = it cannot have several rows.
func widen(text string) (out []string) {
	head, rest, found := strings.Cut(text, "VALUES (")
	end := closing(rest)
	if !found || end < 0 || strings.Contains(head, "$") || strings.Contains(rest[end:], "$") || strings.Contains(rest[end:], "DO UPDATE") {
		return nil
	}
	row, args := rest[:end], 0
	for _, p := range placeholder.FindAllString(row, -1) {
		n, _ := strconv.Atoi(p[1:]) // digits
		args = max(args, n)
	}
	for _, n := range wideInserts {
		all := make([]string, n)
		for i := range all {
			all[i] = "(" + placeholder.ReplaceAllStringFunc(row, func(p string) string {
				of, _ := strconv.Atoi(p[1:])
				return "$" + strconv.Itoa(of+i*args)
			}) + ")"
		}
		out = append(out, head+"VALUES "+strings.Join(all, ", ")+rest[end+1:])
	}
	return out
}

// closing returns where the parenthesis ends that text is in; -1 = nowhere.
func closing(text string) int {
	open := 1
	for i, c := range text {
		switch c {
		case '(':
			open++
		case ')':
			open--
		}
		if open == 0 {
			return i
		}
	}
	return -1
}
