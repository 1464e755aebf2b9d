package nearest_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/internal/nearest"
)

var known = []string{"type", "title", "payload", "priority"}

func TestWhatMayBeMeant(t *testing.T) {
	for word, want := range map[string]string{
		"titel":    "; did you mean title?",
		"TYPE":     "; did you mean type?",
		"payloads": "; did you mean payload?",
		"pri":      "; did you mean priority?",
		"tyle":     "; did you mean type?",
		"colour":   "",
		"type":     "",
		"":         "",
	} {
		if got := nearest.Question(word, known); got != want {
			t.Errorf("%s: %q, want %q", word, got, want)
		}
	}
	if got := nearest.Question("tpe", []string{"type", "tape", "tope", "tip"}); got != "; did you mean type or tape or tope?" {
		t.Errorf("several: %q", got)
	}
}

// The words of callers may be as long as a body.
func TestLongWordsCostNothing(t *testing.T) {
	word := strings.Repeat("title", 1<<18)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if got := nearest.Of(word, known); got != "" {
		t.Errorf("%q", got)
	}
	if got := nearest.Some(word, known); len(got) != 1 { // it begins like one
		t.Errorf("%q", got)
	}
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d MiB", used>>20)
	}
}
