package engine_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// A create that comes while another call reads the registry waits for what that
// reads: it does not go on without the rules of its type.
func TestCreatesAtOnceHaveTheRulesOfTheirType(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		need[pawl.TypeRef](t)(first(p.Service.PutTypes(t.Context(), []pawl.Type{{Name: "a", Acceptance: true}})))
		for n := range times(10, 200) {
			e := p.Another(engine.Options{})
			var begin, done sync.WaitGroup
			begin.Add(1)
			for range 8 {
				done.Go(func() {
					begin.Wait()
					task, err := pawl.Create(t.Context(), e, pawl.NewTask{Type: "a"})
					if err != nil || task.TypeVersion != 1 {
						t.Errorf("engine %d: the task has version %d of its type, %v", n, task.TypeVersion, err)
					}
				})
			}
			begin.Done()
			done.Wait()
			if err := e.Close(); err != nil {
				t.Error(fmt.Errorf("close: %w", err))
			}
		}
	})
}
