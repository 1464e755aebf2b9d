package shellwords

import (
	"slices"
	"testing"
)

// What Line writes, Split reads.
func TestALineIsReadAsItWasWritten(t *testing.T) {
	args := []string{"a", "", "two words", "it's", `\`, "$HOME", "--payload={\"a\": 1}", "ä"}
	if got := Split(Line("team a", "signal send", args...)); !slices.Equal(got, append([]string{"pawl", "signal", "send",
		"--namespace", "team a"}, args...)) {
		t.Errorf("%q", got)
	}
	if got := Split("pawl 'unended"); got != nil {
		t.Errorf("%q", got)
	}
}
