package api_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
)

var update = flag.Bool("update", false, "write the vectors that are made of tables")

// routeVector is what a client in another language has to know about a call: where it is, and
// which retries and idempotency keys are right for it.
type routeVector struct {
	Name     string `json:"name"`
	Method   string `json:"method"`
	Path     string `json:"path"`
	Mutates  bool   `json:"mutates"`   // it takes an idempotency key
	GivenKey bool   `json:"given_key"` // it carries the key that the caller gives
	OwnKey   bool   `json:"own_key"`   // the client makes a key when the caller gives none
	Repeats  bool   `json:"repeats"`   // it may be sent again without a key
	Operator bool   `json:"operator"`  // it may take an hour
	Streams  bool   `json:"streams"`   // it answers with server-sent events
	Batch    bool   `json:"batch"`     // it is a batch form: {items: …} in, {results: …} out
}

// The SDKs take the calls from this file, so a new route is known to them at once.
func TestVectorsOfRoutesAreFresh(t *testing.T) {
	var out []routeVector
	for _, r := range api.Routes {
		out = append(out, routeVector{
			Name: r.Name, Method: r.Method, Path: r.Path,
			Mutates:  r.TakesKey(),
			GivenKey: r.TakesKey() && !r.Has(api.NoGivenKey),
			OwnKey:   r.TakesKey() && !r.Has(api.NoOwnKey|api.Repeatable),
			Repeats:  !r.TakesKey() || r.Has(api.Repeatable),
			Operator: r.Role == api.Operator && r.Method != "GET",
			Streams:  r.Has(api.Streams),
			Batch:    strings.Contains(r.Path, ":") && r.Subject() == "" && r.Success == 200,
		})
	}
	fresh(t, "routes.json", out)
}

// errorVector is a row of the table of errors.
type errorVector struct {
	Code      pawl.Code `json:"code"`
	Status    int       `json:"status"`
	Retryable bool      `json:"retryable"`
	Means     string    `json:"means"`
}

func TestVectorsOfErrorsAreFresh(t *testing.T) {
	var out []errorVector
	for _, e := range pawl.Errors {
		out = append(out, errorVector{e.Code, e.HTTP, e.Retryable, e.Means})
	}
	fresh(t, "errors.json", out)
}

// fresh compares a file of testdata/vectors with rows, one on each line.
func fresh[T any](t *testing.T, name string, rows []T) {
	t.Helper()
	lines := make([][]byte, len(rows))
	for i, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		lines[i] = append([]byte("  "), line...)
	}
	want := slices.Concat([]byte("[\n"), bytes.Join(lines, []byte(",\n")), []byte("\n]\n"))
	path := filepath.Join("../testdata/vectors", name)
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(have, want) {
		t.Errorf("%s is not fresh: go test ./api -run TestVectors -update", path)
	}
}
