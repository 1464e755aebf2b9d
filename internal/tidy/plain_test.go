package tidy

import (
	"go/ast"
	"regexp"
	"strings"
	"testing"
)

// maxLine bounds a line of Go, in bytes.
const maxLine = 140

// structTag finds a field with a tag of several keys: a tag cannot be broken.
var structTag = regexp.MustCompile("^\t+\\w+ +\\S+ +`(json|header|query):\".*\" .*\"`$")

func TestLinesAreShort(t *testing.T) {
	eachPlain(t, func(f *file) string {
		for _, l := range strings.Split(f.text, "\n") {
			if len(l) > maxLine && !structTag.MatchString(l) {
				return l
			}
		}
		return ""
	})
}

// metaphors are words that names and comments do not use. Each has a standard term in
// docs/glossary.md, or means a person where a program is meant.
var metaphors = regexp.MustCompile(`(?i)\b(crew|scribe|deeds?|lane|talker|throwaway|foreman|` +
	`gallery|glance|grip|mishap|parrots?|pen|poke|ripe|seat|speaker|story|ticket|` +
	`severally|vouched|attested|voucher|seeker|disclaim|waker|lull|handin|insist|desk|sheet|homes|tails|house|office|shelf|tape|` +
	`whoever|nobody|somebody|everybody|anybody)\b`)

func TestWordsArePlain(t *testing.T) {
	eachPlain(t, func(f *file) (found string) {
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if found == "" {
					found = metaphors.FindString(c.Text)
				}
			}
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && found == "" && id.Name != "NoBody" { // http.NoBody
				found = metaphors.FindString(id.Name)
			}
			return found == ""
		})
		return found
	})
}

// eachPlain reports the Go files in which find finds something.
func eachPlain(t *testing.T, find func(*file) string) {
	t.Helper()
	each(t, func(f *file) bool { return f.isGo() && !f.generated && f.path != "internal/tidy/plain_test.go" }, func(f *file) {
		if found := find(f); found != "" {
			t.Errorf("%s: %.100q", f.path, found)
		}
	})
}

// driverErrors are SQLSTATEs and names of the drivers' error types.
var driverErrors = regexp.MustCompile(
	`\bpgconn\.PgError\b|\bsqlite\.Error\b|\bsqlite3\.SQLITE_|"(40001|40P01|23505|55P03|57P0[0-9]|25P02|42P01)"`)

// Errors of the drivers are classified in the store; the rest knows codes of pawl.
func TestDriverErrorsStayInTheStore(t *testing.T) {
	each(t, func(f *file) bool { return f.code() && !f.under("store") }, func(f *file) {
		if found := driverErrors.FindString(f.text); found != "" {
			t.Errorf("%s: %s; driver errors are classified in store/", f.path, found)
		}
	})
}
