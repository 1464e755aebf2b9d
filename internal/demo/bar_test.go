package demo

import (
	"bytes"
	"strings"
	"testing"
)

func TestBar(t *testing.T) {
	var out bytes.Buffer
	b := newBar(&out, 4)
	b.set(1, "a worker was killed")
	b.set(1, "a worker was killed") // nothing has changed
	b.set(4, strings.Repeat("ü", 200))
	b.end()
	lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\r")
	if len(lines) != 4 || lines[0] != "" {
		t.Fatalf("wrote %q", lines)
	}
	for i, want := range []string{
		"0 / 4 items [" + strings.Repeat(" ", 30) + "] 0% ", "1 / 4 items [=======   ", "4 / 4 items [" + strings.Repeat("=", 30) + "] 100% ",
	} {
		line, erased := strings.CutSuffix(lines[i+1], "\x1b[K")
		if !strings.HasPrefix(line, want) || !erased || len([]rune(line)) > barColumns {
			t.Errorf("line %d is %q, not %q…", i, line, want)
		}
	}
	if !strings.Contains(lines[2], "a worker was killed") {
		t.Errorf("%q does not say what happened", lines[2])
	}
}
