package logs_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

func replacing(payload string) pawl.NewTask {
	return pawl.NewTask{Type: "a", Payload: []byte(payload),
		Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k", OnConflict: pawl.OnConflictReplace}}
}

func debouncing(payload string) pawl.NewTask {
	return pawl.NewTask{Type: "a", Payload: []byte(payload), Debounce: &pawl.Debounce{Key: "k", Seconds: 2, MaxSeconds: 3600}}
}

// intact checks that doctor, verify and verify --all find nothing, and no value that they cannot compare.
func (c *logged) intact(when string) {
	c.Helper()
	if v := c.verify(); !v.Intact || v.Unproved != nil {
		c.Errorf("%s: the task: %+v", when, v)
	}
	if v := c.verifyAll(); !v.Intact || v.Unproved != nil {
		c.Errorf("%s: the log: %+v", when, v)
	}
	breaches, err := c.Engine.Check(c.Context())
	c.ok(nil, err)
	more, _, err := c.Engine.CheckLog(c.Context(), 1000)
	c.ok(nil, err)
	if found := append(breaches, more...); len(found) > 0 {
		c.Errorf("%s: %+v", when, found)
	}
}

// A payload that is replaced, before or after it was logged, is proved in the database, in the archive and
// after a restore: the creation stands for what was created, and each replacement for what it wrote.
func TestAReplacedPayloadIsProved(t *testing.T) {
	t.Parallel()
	for name, make := range map[string]func(string) pawl.NewTask{"unique": replacing, "debounce": debouncing} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, log := range []string{"at once", "at the end"} {
				t.Run(log, func(t *testing.T) {
					t.Parallel()
					eachSigned(t, func(t *testing.T, c *logged) {
						ctx := pawl.WithProvenance(t.Context(), pawl.Provenance{AgentName: "research-bot"})
						for n := range 4 {
							task, err := pawl.Create(ctx, c.Service, make(fmt.Sprintf(`{"n":%d}`, n)))
							c.ok(task, err)
							if c.task = task; log == "at once" {
								c.sign()
							}
						}
						c.sign()
						c.intact("when it is queued")
						c.Advance(2 * time.Second)
						c.ok(c.Service.Sweep(t.Context()))
						c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), []byte(`1`)))
						c.sign()
						c.intact("when it has ended")
						file := c.archiveOf()
						c.refused(file, []forgery{
							{"another input", c.replaced("tasks", `{\"n\":3}`, `{\"n\":4}`), "changed"},
							{"the first input", c.replaced("tasks", `{\"n\":3}`, `{\"n\":0}`), "changed"},
							{"another digest", c.replaced("task_events", `\"from\":\"sha256:`, `\"from\":\"sha256:0`), "changed"},
							{"a replacement that is gone", without("task_events", `"event":"updated"`), "missing"},
						})
						_, err := c.Service.RestoreArchive(t.Context(), c.task.ID)
						c.ok(nil, err)
						c.sign()
						c.intact("when it was restored")
						c.ok(nil, c.Exec(`UPDATE pawl.tasks SET input = '{"n":0}' WHERE input = '{"n":3}'`))
						c.Tampered()
						if v := c.verify(); v.Intact || len(v.Faults) != 1 || v.Faults[0].Kind != "changed" {
							t.Errorf("an input that was changed: %+v", v)
						}
					})
				})
			}
		})
	}
}

// An older program logged the creation of a task with the payload that it found, which may have been
// replaced by then, and its replacements without a digest: that is no fault.
func TestAReplacedPayloadThatAnOlderProgramLogged(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		c.Tampered()
		task, err := pawl.Create(t.Context(), c.Service, pawl.NewTask{Type: "a", Payload: []byte(`2`)})
		c.ok(task, err)
		c.task = task
		c.sign()
		title := "t"
		_, err = first(c.Service.UpdateTasks(t.Context(), []pawl.TaskUpdate{{TaskID: task.ID, Title: &title}}))
		c.ok(nil, err)
		digest := func(text string) string {
			sum := sha256.Sum256([]byte(text))
			return "sha256:" + hex.EncodeToString(sum[:])
		}
		c.around("task_events", fmt.Sprintf(`UPDATE pawl.task_events SET diff = '{"payload":{"from":"%s","to":"%s"}}' WHERE diff IS NOT NULL`,
			digest("1"), digest("2")))
		c.sign()
		if v := c.verify(); !v.Intact || v.Logged != 2 {
			t.Errorf("the task: %+v", v)
		}
		c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), []byte(`1`)))
		c.sign()
		got, err := engine.VerifyArchive(c.archiveOf(), []string{strings.TrimSpace(c.public())})
		c.ok(nil, err)
		if !got.Intact {
			t.Errorf("the archive: %+v", got)
		}
		_, err = c.Service.RestoreArchive(t.Context(), task.ID)
		c.ok(nil, err)
		if v := c.verifyAll(); !v.Intact {
			t.Errorf("the log: %+v", v)
		}
	})
}

// Payloads are replaced while the log is written and verified: no moment looks like a change.
func TestPayloadsAreReplacedBesideTheLog(t *testing.T) {
	t.Parallel()
	eachSigned(t, func(t *testing.T, c *logged) {
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for _, svc := range []*engine.Engine{c.Engine, c.Another(engine.Options{})} {
			wg.Go(func() {
				for n := 0; ctx.Err() == nil; n++ {
					task := replacing(fmt.Sprint(n))
					task.Unique.Key = fmt.Sprint(n / 5 % 7)
					if _, err := pawl.Create(context.Background(), svc, task); err != nil && !errors.Is(err, pawl.ErrConflict) &&
						!(errors.Is(err, pawl.ErrUnavailable) && c.Database == pawltest.Postgres) {
						t.Error(err)
						return
					}
				}
			})
		}
		for range times(6, 60) {
			c.ok(nil, c.Engine.Log(t.Context()))
			if v := c.verifyAll(); !v.Intact {
				t.Errorf("%+v", v.Faults)
				break
			}
		}
		stop()
		wg.Wait()
		c.sign()
		if v := c.verifyAll(); !v.Intact || v.Unproved != nil {
			t.Errorf("%+v", v)
		}
	})
}

// Messages of a create that may only replace a payload would be lost, so they are refused.
func TestACreateThatMayReplaceTakesNoMessages(t *testing.T) {
	t.Parallel()
	p := pawltest.Open(t, pawltest.SQLite)
	for name, task := range map[string]pawl.NewTask{"unique": replacing("1"), "debounce": debouncing("1")} {
		task.Messages = []pawl.NewMessage{{Role: "user", Content: []byte(`"hello"`)}}
		if _, err := pawl.Create(t.Context(), p.Engine, task); pawl.CodeOf(err) != pawl.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A task that is deleted from its archive gives its key up.
func TestADeletedArchiveGivesTheKeyUp(t *testing.T) {
	t.Parallel()
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		unique := pawl.NewTask{Type: "a", Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: "k", WindowSeconds: 300 * 86400}}
		task := need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, unique))
		need[pawl.Task](t)(first(p.Engine.CancelTasks(t.Context(), []pawl.TaskCall{{TaskID: task.ID}})))
		for range 2 {
			p.Advance(31 * 24 * time.Hour)
			need[pawl.SweepStats](t)(p.Engine.Sweep(t.Context()))
		}
		if _, err := pawl.Create(t.Context(), p.Engine, unique); pawl.CodeOf(err) != pawl.CodeConflict {
			t.Errorf("before: %v", err)
		}
		if err := p.Engine.DeleteArchive(t.Context(), task.ID); err != nil {
			t.Error(err)
		}
		need[pawl.Task](t)(pawl.Create(t.Context(), p.Engine, unique))
	})
}
