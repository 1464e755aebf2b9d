package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
)

// previous is the commit of the program that runs beside the present one: the one that was
// released last, or that closed the last part of the work. PAWL_TEST_PREVIOUS names another.
const previous = "e518c86"

// A program of an earlier version and the present one work on one database at the same time.
// Each finishes what the other has claimed. Then the earlier one stops, and the rules hold.
func TestTwoVersionsWorkOnOneDatabase(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the programs are stopped by a signal")
	}
	before, after := builtFrom(t, previous), present(t)
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			url, schema := pawltest.Place(t, which)
			place := []string{"--db", url}
			if schema != "" {
				place = append(place, "--schema", schema)
			}
			old := serving(t, before, place)
			now := serving(t, after, place)
			workTogether(t, client.New(old.url, ""), client.New(now.url, ""), 40)
			old.stop(t)
			workTogether(t, client.New(now.url, ""), client.New(now.url, ""), 10)
			now.stop(t)
			for _, check := range [][]string{{"doctor"}, {"verify", "--all"}} {
				out, err := exec.CommandContext(t.Context(), after, append(check, place...)...).CombinedOutput()
				if err != nil {
					t.Errorf("%s: %v\n%s", check, err, out)
				}
			}
		})
	}
}

// builtFrom builds the program of a commit. With -trimpath Go knows in any folder what it has
// compiled. A copy of the repository without the commit, such as a shallow clone or an archive, skips the test.
func builtFrom(t *testing.T, commit string) string {
	t.Helper()
	if named := os.Getenv("PAWL_TEST_PREVIOUS"); named != "" {
		commit = named
	}
	text, err := exec.CommandContext(t.Context(), "git", "-C", "../..", "archive", "--format=tar", commit).Output()
	if err != nil {
		why := err.Error()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			why = string(bytes.TrimSpace(exit.Stderr))
		}
		if os.Getenv("PAWL_TEST_PREVIOUS") != "" {
			t.Fatalf("the program of %s cannot be built: %s", commit, why)
		}
		t.Skipf("the program of %s cannot be built: git has no files of that commit here: %s", commit, why)
	}
	dir := filepath.Join("..", "..", ".work", "previous")
	if err := errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	unpack := exec.CommandContext(t.Context(), "tar", "-x", "-C", dir)
	unpack.Stdin = bytes.NewReader(text)
	if out, err := unpack.CombinedOutput(); err != nil {
		t.Fatalf("tar: %v\n%s", err, out)
	}
	// Nothing else needs what is compiled here, and it is compiled faster if it is not optimized.
	return built(t, dir, "-ldflags=-s -w", "-gcflags=github.com/pawl-work/pawl/...=-N -l")
}

// present is the program of the files here; a run of all packages has built it.
func present(t *testing.T) string {
	t.Helper()
	if built := os.Getenv("PAWL_TEST_PROGRAM"); built != "" {
		return built
	}
	return built(t, "../..")
}

func built(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	bin := filepath.Join(t.TempDir(), "pawl")
	args := append([]string{"build", "-trimpath", "-buildvcs=false", "-o", bin}, flags...)
	c := exec.CommandContext(t.Context(), "go", append(args, "./cmd/pawl")...)
	c.Dir = dir
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("go build in %s: %v\n%s", dir, err, out)
	}
	return bin
}

// program is a server in progress.
type program struct {
	*exec.Cmd
	url string
	log *bytes.Buffer
}

func serving(t *testing.T, bin string, place []string) *program {
	t.Helper()
	c := exec.Command(bin, append([]string{"serve", "--addr", "127.0.0.1:0"}, place...)...)
	c.Dir, c.Env = t.TempDir(), append(os.Environ(), "HOME="+t.TempDir())
	lines, err := c.StderrPipe()
	if err == nil {
		err = c.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() }) // it may have ended
	p := &program{Cmd: c, log: &bytes.Buffer{}}
	found := make(chan string, 1)
	go func() {
		defer close(found)
		for said := bufio.NewScanner(lines); said.Scan(); {
			if _, url, ok := strings.Cut(said.Text(), "url="); ok && p.url == "" {
				p.url = strings.Fields(url)[0]
				found <- p.url
			} else if p.url == "" {
				_, _ = p.log.WriteString(said.Text() + "\n")
			}
		}
	}()
	if _, ok := <-found; !ok {
		t.Fatalf("%s does not serve:\n%s", bin, p.log)
	}
	return p
}

func (p *program) stop(t *testing.T) {
	t.Helper()
	if err := p.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	if err := p.Wait(); err != nil {
		t.Errorf("a server ended with %v", err)
	}
}

// workTogether has two services claim, keep, checkpoint and complete items, each those of the
// other too, until all tasks are completed.
func workTogether(t *testing.T, a, b *client.Client, tasks int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var ids []string
	for n := range tasks {
		task := pawl.NewTask{Type: "shared", Payload: json.RawMessage("1")}
		if n%4 == 0 {
			task.Items = []pawl.NewItem{{Key: "a"}, {Key: "b", After: []string{"a"}}, {Key: "c"}}
		}
		made, err := pawl.Create(ctx, []*client.Client{a, b}[n%2], task)
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, made.ID)
	}
	var left atomic.Int64
	left.Store(int64(tasks + 2*((tasks+3)/4))) // each fourth task has three items
	var all sync.WaitGroup
	for n, pair := range [][2]*client.Client{{a, a}, {a, b}, {b, a}, {b, b}} {
		all.Go(func() {
			for left.Load() > 0 && ctx.Err() == nil {
				done, err := workOn(ctx, pair[0], pair[1], fmt.Sprint("w", n))
				if err != nil {
					t.Errorf("worker %d: %v", n, err)
					return
				}
				left.Add(int64(-done))
			}
		})
	}
	all.Wait()
	for _, id := range ids {
		if task, err := b.GetTask(ctx, id); err != nil || task.State != pawl.TaskCompleted {
			t.Errorf("task %s is %s: %v", id, task.State, err)
		}
	}
}

// workOn claims items through one service and finishes them through the other.
func workOn(ctx context.Context, claims, finishes *client.Client, worker string) (done int, err error) {
	ls, err := claims.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, Types: []string{"shared"}, Limit: 3, WaitSeconds: 1})
	if err != nil {
		return 0, err
	}
	for _, l := range ls {
		f := l.Fence()
		if _, err := only(finishes.Heartbeat(ctx, []pawl.HeartbeatCall{{Fence: f}})); err != nil {
			return done, fmt.Errorf("heartbeat: %w", err)
		}
		for _, svc := range []*client.Client{claims, finishes} {
			if _, err := pawl.SaveCheckpoint(ctx, svc, f, pawl.NewCheckpoint{Type: pawl.CustomCheckpoint, Name: "state",
				Snapshot: json.RawMessage(`"` + strings.Repeat("a state of the work. ", 400) + `"`)}); err != nil {
				return done, fmt.Errorf("checkpoint: %w", err)
			}
		}
		if _, err := only(finishes.Complete(ctx, []pawl.CompleteCall{{Fence: f, Result: json.RawMessage(`{"a":1}`)}})); err != nil {
			return done, fmt.Errorf("complete: %w", err)
		}
		done++
	}
	return done, nil
}

func only[V any](rs []pawl.Result[V], err error) (V, error) {
	if err != nil {
		var zero V
		return zero, err
	}
	return rs[0].Value, rs[0].Err
}
