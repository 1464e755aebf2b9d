package pawl_test

import (
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/internal/cost"
)

func TestMessagesAreNormalized(t *testing.T) {
	for message, want := range map[string]string{
		"connection to 10.0.3.17:5432 refused after 3012 ms":                   "connection to <n>:<n> refused after <n> ms",
		"read timed out after 1.5s (attempt 3/5)":                              "read timed out after <n>s (attempt <n>/<n>)",
		`user "bob17" not found in /var/data/17/users.json`:                    "user <text> not found in <path>",
		"request 7F3d2c1b-0a9e-4d8c-b7a6-f5e4d3c2b1a0 was refused: status=503": "request <uuid> was refused: status=<n>",
		"item itm_01JDQ2K7XG3B5N8M0P4R6T9VWY is gone.":                         "item <id> is gone.",
		"bad checksum 9f86d081884c at 0x7ffe12":                                "bad checksum <hex> at <hex>",
		"GET https://api.example.com/v1/users/42?x=1: 500":                     "GET <url>: <n>",
		"can't open 'a file' for bob's job":                                    "can't open <text> for bob's job",
		"panic at C:\\jobs\\42\\run.go: nil":                                   "panic at <path>: nil",
		"src/main.go:12: undefined x":                                          "<path>: undefined x",
		"on 2026-11-22 at 10:31:05":                                            "on <n> at <n>:<n>:<n>",
		"fk_3 of row 17\n\n  is\tbroken ":                                      "fk_<n> of row <n> is broken",
		"ключ 42 не найден":                                                    "ключ <n> не найден",
		"unexpected end":                                                       "unexpected end",
		"and/or neither":                                                       "and/or neither",
		`an open "quote`:                                                       `an open "quote`,
		"":                                                                     "",
	} {
		if got := (pawl.Failure{Message: message}).Normalized(); got != want {
			t.Errorf("%q is normalized to\n  %q, not\n  %q", message, got, want)
		}
	}
}

func TestErrorsOfOneGroupHaveOneName(t *testing.T) {
	a, b := pawl.Failure{Code: "timeout", Message: "after 3 s"}, pawl.Failure{Code: "timeout", Message: "after 17 s"}
	if a.Key() != b.Key() {
		t.Error("messages that differ in a number are two groups")
	}
	for _, other := range []pawl.Failure{{Message: "after 3 s"}, {Code: "timeout", Message: "before 3 s"}} {
		if other.Key() == a.Key() {
			t.Errorf("%v is of the group of %v", other, a)
		}
	}
	for _, key := range []int64{1, a.Key(), 1<<63 - 1} {
		name := pawl.FailureName("mail:send", key)
		if typ, got, ok := pawl.ParseFailureName(name); !ok || typ != "mail:send" || got != key {
			t.Errorf("%s is read as %s, %d, %t", name, typ, got, ok)
		}
	}
	for _, no := range []string{"", "mail", "mail:12", ":0000000000000001", "mail:0000000000000000", "mail:000000000000000G",
		"mail:00000000000000aA",
		"mail:ffffffffffffffff"} {
		if _, _, ok := pawl.ParseFailureName(no); ok {
			t.Errorf("%q is read as the name of a group", no)
		}
	}
}

func FuzzNormalized(f *testing.F) {
	f.Add("user \"bob\" at 10.0.0.1: /x/y 'z")
	f.Fuzz(func(t *testing.T, message string) {
		var once string
		cost.Check(t, len(message), func() { once = (pawl.Failure{Message: message}).Normalized() })
		if strings.ContainsAny(once, "0123456789") {
			t.Errorf("%q keeps a digit: %q", message, once)
		}
	})
}
