package tidy

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	mdLink     = regexp.MustCompile(`\]\(([^)\s#:]*)(#[^)\s]*)?\)`)
	mdHeading  = regexp.MustCompile(`(?m)^#+ (.+)$`)
	mdFence    = regexp.MustCompile("(?ms)^```.*?^```$")
	notAnchor  = regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	namedDoc   = regexp.MustCompile(`\b(?:docs|examples|sdk|bench|contrib)/[\w./-]+\.md\b`)
	privateDoc = marks{
		[]string{"eed", "ouse.md", "esign.md", "ompact.md", "tyle.md", "eps.md", "ontract §", "apping.md"},
		regexp.MustCompile(
			`\b[Ss]eeds?[ _]?[1-5]\b|\bseed[1-5]_|\b[Tt]he (?:five )?seeds?'? ` +
				`(?:say|has|have|document)|\b(?:house|design|compact|style|deps|mapping)\.md\b|\b[Cc]ontract §`,
		),
	}
)

// anchors returns the headings of a document, in the form in which links name them.
func anchors(text string) map[string]bool {
	out := map[string]bool{}
	for _, m := range mdHeading.FindAllStringSubmatch(mdFence.ReplaceAllString(text, ""), -1) {
		heading := regexp.MustCompile(`\]\([^)]*\)`).ReplaceAllString(m[1], "]")
		out["#"+strings.ReplaceAll(strings.ToLower(notAnchor.ReplaceAllString(heading, "")), " ", "-")] = true
	}
	return out
}

// Every link of a document leads to a file of the repository, and to a heading in it.
func TestLinksLeadSomewhere(t *testing.T) {
	texts := map[string]string{}
	each(t, func(f *file) bool { return strings.HasSuffix(f.path, ".md") }, func(f *file) { texts[f.path] = f.text })
	links := 0
	for from, text := range texts {
		for _, m := range mdLink.FindAllStringSubmatch(mdFence.ReplaceAllString(text, ""), -1) {
			to := from
			if m[1] != "" {
				to = path.Join(path.Dir(from), m[1])
			}
			links++
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: no file %s", from, m[1])
			} else if m[2] != "" && strings.HasSuffix(to, ".md") && !anchors(texts[to])[m[2]] {
				t.Errorf("%s: %s has no heading %s", from, to, m[2])
			}
		}
	}
	if links < 100 {
		t.Errorf("only %d links were found", links)
	}
}

// Comments, tests and documents refer to documents of the repository only.
func TestNamedDocumentsAreHere(t *testing.T) {
	each(t, func(f *file) bool { return f.path != "internal/tidy/documents_test.go" }, func(f *file) {
		privateDoc.in(f, func(n int, found string) {
			t.Errorf("%s:%d: refers to %q, which is not in the repository", f.path, n, found)
		})
		for _, name := range namedDoc.FindAllString(f.text, -1) {
			_, atRoot := os.Stat(filepath.Join(root, name))
			_, beside := os.Stat(filepath.Join(root, f.dir(), name))
			if atRoot != nil && beside != nil && !strings.HasSuffix(f.path, ".lock") {
				t.Errorf("%s: there is no %s", f.path, name)
			}
		}
	})
}
