package dashboard

import (
	"os/exec"
	"strings"
	"testing"

	"net/http/httptest"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// A shell reads each word as it was, whatever is in it.
func TestWordsAreQuoted(t *testing.T) {
	words := []string{"", "plain", "two words", "it's", `a"b`, "$HOME", "`id`", "a\\b",
		"!", "*", "~", "a;b", "a\nb", "-n", "ü", "#x", "{a,b}"}
	out, err := exec.Command("sh", "-c", `f() { for w do printf '%s\0' "$w"; done; }; f `+shellLine(words)).Output()
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00"); strings.Join(got, "|") != strings.Join(words, "|") {
		t.Errorf("a shell reads %q as %q", words, got)
	}
}

// The commands of a page name the server, the namespace and, where keys are required, PAWL_KEY.
func TestCommandsOfAPage(t *testing.T) {
	r := httptest.NewRequest("GET", "http://pawl.example:7033/ui/queues/-x", nil)
	v := &request{Request: r.WithContext(pawl.As(r.Context(), pawl.Caller{Namespace: "a b"}))}
	v.shows("/v1/queues/-x", pawlCommand("queue", "get").on("-x"))
	want := []string{
		"pawl queue get --server=http://pawl.example:7033 '--namespace=a b' -- -x",
		"curl -sS http://pawl.example:7033/v1/queues/-x -H 'Pawl-Namespace: a%20b'",
	}
	if got := v.lines(); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	v.pass = access.Pass{Key: &pawl.APIKey{}}
	if got := v.lines()[1]; got != want[1]+` -H "Authorization: Bearer $PAWL_KEY"` {
		t.Errorf("with a key: %s", got)
	}
}
