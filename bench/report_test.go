package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const documented = `# Performance
| name | other |
|---|---|
| not this one | x |

<!-- known misses -->
| name | measured | cause |
|---|---|---|
| slow thing | 1× | it is slow |
<!-- end of known misses -->
| nor this | y | z |
`

func TestOnlyDocumentedMissesAreKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "performance.md")
	if err := os.WriteFile(path, []byte(documented), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	r, err := newReport(&out, path)
	if err != nil {
		t.Fatal(err)
	}
	r.add(line{name: "good thing", got: series{3, 1, 2}, unit: "×", atLeast: 2, absolute: "20k/s", peer: "River"})
	r.add(line{name: "slow thing", got: series{1}, unit: "×", atLeast: 2})
	if code := r.close(); code != 0 {
		t.Errorf("a known miss ended with %d", code)
	}
	r.add(line{name: "nor this", got: series{11}, unit: " ms", atMost: 10})
	r.add(line{name: "nothing measured", got: nil, atMost: 10})
	if code := r.close(); code != 1 {
		t.Errorf("a miss ended with %d", code)
	}
	want := []string{"PASS   good thing", "KNOWN  slow thing", "MISS   nor this", "MISS   nothing measured"}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(got) != len(want) {
		t.Fatalf("printed\n%s", out.String())
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("line %q does not begin with %q", got[i], want[i])
		}
	}
	if !strings.Contains(got[0], "2× [1..3] (20k/s)  ≥ 2×  River") {
		t.Errorf("line %q", got[0])
	}
}

// Programs read the lines as JSON.
func TestLinesInJSON(t *testing.T) {
	var out strings.Builder
	r := report{out: &out, json: true}
	r.add(line{name: "good thing", got: series{3, 1, 2}, unit: " ms", atMost: 2, absolute: "20k/s", peer: "River"})
	r.add(line{name: "nothing measured", unit: "×", atLeast: 2})
	r.broken("section", errors.New("it failed"))
	want := `{"name":"good thing","value":2,"unit":"ms","low":1,"high":3,"target":"≤ 2 ms","verdict":"PASS","peer":"River"}
{"name":"nothing measured","value":null,"unit":"×","low":null,"high":null,"target":"≥ 2×","verdict":"MISS","peer":""}
{"name":"section","value":null,"unit":"","low":null,"high":null,"target":"","verdict":"MISS","peer":""}
`
	if out.String() != want || r.miss != 2 {
		t.Errorf("%d missed; printed\n%s", r.miss, out.String())
	}
}

// The document of this tree can be read.
func TestDocumentHasItsTable(t *testing.T) {
	if _, err := knownMisses("../docs/performance.md"); err != nil {
		t.Fatal(err)
	}
}

func TestFigures(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.984: "0.98", 2.5: "2.5", 12.34: "12.3", 2867: "2867", 12_345: "12.3k", 128_000: "128k"} {
		if got := figure(v); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}

func TestBatchesAddUp(t *testing.T) {
	todo := inBatches(2500, 1000)
	var got []int
	for k := todo.next(); k > 0; k = todo.next() {
		got = append(got, k)
	}
	if len(got) != 3 || got[0] != 1000 || got[2] != 500 || todo.next() != 0 {
		t.Errorf("batches %v", got)
	}
}
