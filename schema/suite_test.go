package schema

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The JSON-Schema-Test-Suite, as google/jsonschema-go has it: without optional parts and formats.
// All of it is decided as it says, except what is refused on purpose: references to other documents.
func TestJSONSchemaTestSuite(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/google/jsonschema-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	for draft, fewest := range map[string]int{"draft2020-12": 1055, "draft7": 890} {
		files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "jsonschema", "testdata", draft, "*.json"))
		if err != nil {
			t.Fatal(err)
		}
		decided := 0
		for _, file := range files {
			decided += suiteFile(t, file, draft == "draft7")
		}
		if decided < fewest {
			t.Errorf("%s: %d tests, want %d or more", draft, decided, fewest)
		}
	}
}

// suiteFile returns how many tests of a file were decided.
func suiteFile(t *testing.T, file string, draft7 bool) (decided int) {
	var groups []struct {
		Description string
		Schema      json.RawMessage
		Tests       []struct {
			Description string
			Data        json.RawMessage
			Valid       bool
		}
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &groups)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups {
		at := filepath.Base(file) + ": " + g.Description
		if members, found := strings.CutPrefix(string(g.Schema), "{"); found && draft7 && !strings.Contains(members, "$schema") {
			comma := ","
			if strings.TrimSpace(members) == "}" {
				comma = ""
			}
			g.Schema = json.RawMessage(`{"$schema":"` + Draft7 + `"` + comma + members)
		}
		s, refused := Compile(g.Schema)
		if refused != nil {
			if !strings.Contains(refused[0].Message, "never fetched") {
				t.Errorf("%s: %v", at, refused)
			}
			continue
		}
		for _, c := range g.Tests {
			decided++
			if bad := s.Check(c.Data); (bad == nil) != c.Valid {
				t.Errorf("%s: %s: valid is %v, and is told: %v", at, c.Description, c.Valid, bad)
			}
		}
	}
	return decided
}
