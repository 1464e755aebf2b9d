package main

import (
	"strings"
	"testing"
)

const events = `{"Action":"start","Package":"p"}
{"Action":"run","Package":"p","Test":"TestGood"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"=== RUN   TestGood\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"    a_test.go:3: chatter\n"}
{"Action":"output","Package":"p","Test":"TestGood","Output":"--- PASS: TestGood (0.00s)\n"}
{"Action":"pass","Package":"p","Test":"TestGood","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestLong","Output":"    a_test.go:9: long run: set PAWL_TORTURE=1\n"}
{"Action":"output","Package":"p","Test":"TestLong","Output":"--- SKIP: TestLong (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestLong","Elapsed":0}
`

const lacking = `{"Action":"output","Package":"p","Test":"TestLacking","Output":"    a_test.go:12: no PostgreSQL\n"}
{"Action":"output","Package":"p","Test":"TestLacking","Output":"--- SKIP: TestLacking (0.00s)\n"}
{"Action":"skip","Package":"p","Test":"TestLacking","Elapsed":0}
`

const broken = `{"Action":"output","Package":"p","Test":"TestBad","Output":"    a_test.go:5: 1 is not 2\n"}
{"Action":"output","Package":"p","Test":"TestBad","Output":"--- FAIL: TestBad (0.00s)\n"}
{"Action":"fail","Package":"p","Test":"TestBad","Elapsed":0}
{"Action":"output","Package":"p","Test":"TestStuck","Output":"panic: test timed out after 1s\n"}
`

const endOK = `{"Action":"output","Package":"p","Output":"PASS\n"}
{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
{"Action":"pass","Package":"p","Elapsed":0.1}
`

const endFail = `{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
{"Action":"fail","Package":"p","Elapsed":0.1}
`

func TestReport(t *testing.T) {
	for _, c := range []struct {
		name, events string
		ci, ok       bool
		want         string
	}{
		{"quiet", events + endOK, false, true, "ok  \tp\t0.1s\n" +
			"skipped: p.TestLong: long run: set PAWL_TORTURE=1\n" +
			"ok\t1 tests passed, 0 failed, 1 skipped, in 1 packages\n"},
		{"every result with ci", events + endOK, true, true, "--- PASS: TestGood (0.00s)\n--- SKIP: TestLong (0.00s)\nok  \tp\t0.1s\n" +
			"skipped: p.TestLong: long run: set PAWL_TORTURE=1\n" +
			"ok\t1 tests passed, 0 failed, 1 skipped, in 1 packages\n"},
		{"what is missing is only listed", events + lacking + endOK, false, true, "ok  \tp\t0.1s\n" +
			"skipped: p.TestLong: long run: set PAWL_TORTURE=1\nskipped: p.TestLacking: no PostgreSQL\n" +
			"ok\t1 tests passed, 0 failed, 2 skipped, in 1 packages\n"},
		{"with ci it fails", lacking + events + endOK, true, false,
			"--- SKIP: TestLacking (0.00s)\n--- PASS: TestGood (0.00s)\n--- SKIP: TestLong (0.00s)\nok  \tp\t0.1s\n" +
				"SKIPPED WITHOUT AN EXCUSE: p.TestLacking: no PostgreSQL\nskipped: p.TestLong: long run: set PAWL_TORTURE=1\n" +
				"FAIL\t1 tests passed, 0 failed, 2 skipped, in 1 packages\n"},
		{"failures and the stuck say all", events + broken + endFail, false, false,
			"    a_test.go:5: 1 is not 2\n--- FAIL: TestBad (0.00s)\nFAIL\tp\t0.1s\n" +
				"--- FAIL: TestStuck (did not end)\npanic: test timed out after 1s\n" +
				"skipped: p.TestLong: long run: set PAWL_TORTURE=1\n" +
				"failed: p.TestBad\n    a_test.go:5: 1 is not 2\n--- FAIL: TestBad (0.00s)\n" +
				"failed: p.TestStuck\npanic: test timed out after 1s\n" +
				"FAIL\t1 tests passed, 2 failed, 1 skipped, in 1 packages\n"},
		{"no test is a failure", endOK, false, false, "ok  \tp\t0.1s\nFAIL\t0 tests passed, 0 failed, 0 skipped, in 1 packages\n"},
		{"other lines pass through", "go: hello\n" + events + endOK, false, true, "go: hello\nok  \tp\t0.1s\n" +
			"skipped: p.TestLong: long run: set PAWL_TORTURE=1\n" +
			"ok\t1 tests passed, 0 failed, 1 skipped, in 1 packages\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out strings.Builder
			r := NewReport(&out, c.ci)
			if err := r.Read(strings.NewReader(c.events), goTest{}); err != nil {
				t.Fatal(err)
			}
			if ok := r.Close(true); ok != c.ok {
				t.Errorf("ok = %t, want %t", ok, c.ok)
			}
			if out.String() != c.want {
				t.Errorf("got:\n%s\nwant:\n%s", out.String(), c.want)
			}
		})
	}
}

func TestMissingIsAFailureInCI(t *testing.T) {
	for _, ci := range []bool{false, true} {
		var out strings.Builder
		r := NewReport(&out, ci)
		r.CouldNot("PostgreSQL", "not here")
		if err := r.Read(strings.NewReader(events+endOK), goTest{}); err != nil {
			t.Fatal(err)
		}
		if ok := r.Close(true); ok == ci {
			t.Errorf("ci %t: ok = %t", ci, ok)
		}
		if want := "could not run: PostgreSQL: not here\n"; !strings.Contains(out.String(), want) {
			t.Errorf("%q lacks %q", out.String(), want)
		}
	}
}

func TestAnInterruptedRunIsNotOK(t *testing.T) {
	var out strings.Builder
	r := NewReport(&out, false)
	if err := r.Read(strings.NewReader(events+endOK), goTest{}); err != nil {
		t.Fatal(err)
	}
	if r.Close(false) || !strings.Contains(out.String(), "FAIL\t1 tests passed") {
		t.Errorf("%s", out.String())
	}
}
