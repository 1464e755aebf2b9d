package pawltest_test

import (
	"runtime"
	"testing"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// skips is a test that notes that it is skipped.
type skips struct {
	testing.TB
	skipped bool
}

func (s *skips) Skip(...any) {
	s.skipped = true
	runtime.Goexit()
}

// A test of a pooler that is not there makes no schema: none can be made at this server.
func TestASkippedTestMakesNoSchema(t *testing.T) {
	t.Setenv("PAWL_TEST_POSTGRES", "postgres://127.0.0.1:1/none")
	t.Setenv("PAWL_TEST_POOLER", "")
	t.Setenv("CI", "")
	for name, open := range map[string]func(testing.TB){
		"of the pool": func(t testing.TB) { pawltest.Open(t, pawltest.Pooled) },
		"its own":     func(t testing.TB) { pawltest.OpenNew(t, pawltest.Pooled, engine.Options{}) },
	} {
		s, done := &skips{TB: t}, make(chan struct{})
		go func() {
			defer close(done)
			open(s)
		}()
		if <-done; !s.skipped {
			t.Errorf("%s: it is not skipped", name)
		}
	}
}
