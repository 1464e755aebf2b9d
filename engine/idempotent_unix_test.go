//go:build unix

package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// answerUntilKilled creates tasks under keys and writes the answers to the journal, until
// it reaches the failpoint that the environment names.
func answerUntilKilled(e *engine.Engine) error {
	seed, _ := strconv.Atoi(os.Getenv("PAWL_TEST_SEED"))
	for n := 0; ; n++ {
		key, point := fmt.Sprintf("%d.%d", seed, n), ""
		if n == seed%5 {
			point = os.Getenv("PAWL_TEST_FAILPOINT")
		}
		write(entry{Key: key}) // asked
		answer, _, err := createOnce(context.Background(), e, key, func() {
			if point == "between effect and answer" {
				kill()
			}
			if point == "in the commit" {
				time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, kill)
			}
		})
		if err != nil {
			return err
		}
		if point == "before the answer is sent" {
			kill()
		}
		write(entry{Key: key, Result: answer})
	}
}

// A process is killed between the effect of a call and its answer, or before the answer
// is sent. When it is asked again with its key, each call has been carried out once and
// has the first answer.
func TestAnswersSurviveACrash(t *testing.T) {
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			p := pawltest.OpenReal(t, which)
			crashAnswers(t, p)
		})
	}
}

func crashAnswers(t *testing.T, p *pawltest.Pawl) {
	t.Helper()
	seen := map[string]string{} // by key; "" = never answered
	for round := range times(5, 90) {
		point := []string{"between effect and answer", "in the commit", "before the answer is sent"}[round%3]
		v := start(t, p, "answerer", "PAWL_TEST_FAILPOINT="+point, fmt.Sprint("PAWL_TEST_SEED=", 100+round))
		for {
			e, more := v.read(t)
			if !more {
				break
			}
			seen[e.Key] = e.Result
		}
		if err := v.Wait(); err == nil {
			t.Fatalf("%s: it was not killed", point)
		}
	}
	for key, first := range seen {
		answer, replayed, err := createOnce(t.Context(), p.Engine, key, nil)
		for errors.Is(err, pawl.ErrKeyInFlight) { // the server has not yet noticed that the process is dead
			time.Sleep(10 * time.Millisecond)
			answer, replayed, err = createOnce(t.Context(), p.Engine, key, nil)
		}
		if err != nil || first != "" && (!replayed || answer != first) {
			t.Errorf("%s: answered %q first and %q now, replayed %v, %v", key, first, answer, replayed, err)
		}
	}
	tasks := need[pawl.List[pawl.Task]](t)(p.Engine.ListTasks(t.Context(), pawl.TaskFilter{Page: pawl.Page{Limit: pawl.MaxPage}}))
	if len(tasks.Items) != len(seen) {
		t.Errorf("%d tasks for %d keys", len(tasks.Items), len(seen))
	}
}
