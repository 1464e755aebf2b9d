package pawl_test

import (
	"testing"

	"github.com/pawl-work/pawl"
)

func TestParseActor(t *testing.T) {
	for text, want := range map[string][2]string{
		"": {}, "boss": {"", "boss"}, "/boss": {"", "boss"}, "user/boss": {"user", "boss"}, "agent/": {"agent", ""}, "user": {"", "user"},
	} {
		kind, id, err := pawl.ParseActor(text)
		if err != nil || kind != want[0] || id != want[1] {
			t.Errorf("%q is %s, %s, %v", text, kind, id, err)
		}
	}
	for _, text := range []string{"user/user/boss", "/user/boss", "spirit/boss", "User/boss", "user//"} {
		if _, _, err := pawl.ParseActor(text); pawl.CodeOf(err) != pawl.CodeInvalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}
