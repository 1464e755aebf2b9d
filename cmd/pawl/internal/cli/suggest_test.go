package cli

import (
	"testing"

	"github.com/pawl-work/pawl/internal/nearest"
)

func TestNearestDoesNotGuess(t *testing.T) {
	verbs := []string{"list", "get", "result", "update", "clone", "cancel", "retry", "bury", "delete", "key", "serve"}
	for word, want := range map[string]string{
		"lsit": "list", "lst": "list", "lists": "list", "cancle": "cancel", "delte": "delete", "updaet": "update", "retyr": "retry",
		"ls": "", "rm": "", "show": "", "stop": "", "help": "", "kill": "", "start": "", "jey": "key",
	} {
		if got := nearest.Of(word, verbs); got != want {
			t.Errorf("%s: did you mean %q? want %q", word, got, want)
		}
	}
}
