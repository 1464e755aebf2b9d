package main

import (
	"strings"
	"testing"
	"time"
)

func TestWhereTheTimeWent(t *testing.T) {
	var out strings.Builder
	r := NewReport(&out, false)
	pass := func(pkg, test, elapsed string) string {
		return `{"Action":"pass","Package":"github.com/pawl-work/pawl` + pkg + `","Test":"` + test + `","Elapsed":` + elapsed + "}\n"
	}
	for _, run := range []struct {
		of     goTest
		events string
	}{
		{goTest{args: []string{"./..."}}, pass("/a", "TestX/sub", "2") + pass("/a", "TestX", "2.5") + pass("/a", "TestY", "1") +
			pass("/a", "TestKnown", "0") + pass("/a", "", "3") + pass("", "TestRoot", "0.5") + pass("", "", "4")},
		{goTest{race: true}, pass("/a", "TestY", "7") + pass("/a", "", "8")},
	} {
		if err := r.Read(strings.NewReader(run.events), run.of); err != nil {
			t.Fatal(err)
		}
		r.Used(run.of, 1500*time.Millisecond)
	}
	r.Spent()
	ok := r.Close(true)
	want := `slowest packages:
      8.0s  a (race)
      4.0s  .
      3.0s  a
slowest tests:
      7.0s  a (race) TestY
      2.0s  a TestX/sub
      1.0s  a TestY
      0.5s  . TestRoot
ok	6 tests passed (1 of them again, with the race detector), 0 failed, 0 skipped, in 2 packages
`
	if _, said, _ := strings.Cut(out.String(), "slowest packages"); !ok || "slowest packages"+said != want {
		t.Errorf("ok %t:\n%s", ok, out.String())
	}
	if !strings.Contains(out.String(), "go test ./...  (1.5 s of the processors)\n") {
		t.Errorf("it does not name the run:\n%s", out.String())
	}
}
