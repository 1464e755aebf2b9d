package store

import (
	"strings"
	"testing"
)

// Fragments of statements end before a comment: what follows them in a statement would belong to
// the comment.
func TestFragmentsHaveNoCommentAtTheirEnd(t *testing.T) {
	for _, name := range []string{"updated", "newest of its task", "available", "events of few tasks"} {
		text := readSQL[name]
		if last := text[strings.LastIndexByte(text, '\n')+1:]; text == "" || strings.Contains(last, "--") {
			t.Errorf("%s ends with %q", name, last)
		}
	}
}
