package dashboard

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/internal/shellwords"
)

// Each command that a page can do has a button with the role that it needs; the others have none.
func TestButtonsOfCommands(t *testing.T) {
	line := func(verb string, args ...string) string { return shellwords.Line("team a", verb, args...) }
	for _, c := range []struct {
		line string
		want *remedy
	}{
		{line("queue resume", "send mail"), &remedy{Label: "Resume the queue", Role: "operator", Post: "/ui/queues/send%20mail/resume"}},
		{line("queue resume", "--all"), &remedy{Label: "Resume the namespace", Role: "operator", Post: "/ui/namespace/resume"}},
		{line("queue set", "a", "--key-concurrency", "3"), &remedy{Label: "Raise the limit", Role: "operator", Post: "/ui/queues/a/raise",
			Fields: []member{{"key-concurrency", "leased at once", "3", true}}}},
		{line("queue set", "a", "--order", "none"), nil},
		{line("budget set", "llm", "--limit", "5"), &remedy{Label: "Raise the budget", Role: "operator", Post: "/ui/budgets/llm/raise",
			Fields: []member{{"limit", "new limit", "5", true}}}},
		{line("signal send", "--signal-key", "it's", "--", "-x"), &remedy{
			Label: "Send the signal", Role: "submitter", Post: "/ui/signals/-x/send",
			Fields: []member{{"key", "", "it's", false}, {"payload", "its payload, as JSON", "null", false}}}},
		{line("task retry", "tsk_1", "--item", "itm_1"), &remedy{
			Label: "Retry…", Role: "operator", Verb: "retry", Link: "/ui/items/itm_1/retry"}},
		{line("task approve", "tsk_1"), &remedy{Label: "Approve…", Role: "approver", Verb: "approve", Link: "/ui/tasks/tsk_1/approve"}},
		{line("item revoke-lease", "itm_1", "--attempt", "2"),
			&remedy{Label: "Revoke the lease…", Role: "operator", Verb: "revoke", Link: "/ui/items/itm_1/revoke_lease"}},
		{line("worker", "--type", "a"), nil},
		{"pawl 'queue", nil},
	} {
		if diff := cmp.Diff(c.want, remedyOf(access.Pass{}, c.line)); diff != "" {
			t.Errorf("%s: %s", c.line, diff)
		}
		reader := access.Pass{Key: &pawl.APIKey{Roles: []string{"reader"}}}
		if r := remedyOf(reader, c.line); r != nil {
			t.Errorf("a reader may %s", c.line)
		}
	}
}

func TestNumbersHaveGroups(t *testing.T) {
	for n, want := range map[any]string{int64(0): "0", 999: "999", 1000: "1,000", int64(-1234567): "-1,234,567", uint8(12): "12", "x": ""} {
		if got := count(n); got != want {
			t.Errorf("%v is %q", n, got)
		}
	}
}
