package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/store"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"pawl": main})
}

// Each script is a conversation with the program. Besides testscript's own
// commands: run pawl … is exec pawl … in the process of the test, which saves the start of a program: for commands that need no
// stdin or variable, start nothing, and end by themselves; exits N CMD… runs it and wants that exit code; let NAME PATH and
// json PATH TEXT read the last stdout as JSON; sum FIELD N adds a field of the points of `pawl stats`; until PATTERN CMD… runs it until
// it says so; uuid NAME ID sets NAME to an id's UUID; serve starts a server and sets URL; say MESSAGE WORKER ATTEMPT
// TEXT… is a writer's process; spoil FILE SQL changes a database behind Pawl's back.
func TestScripts(t *testing.T) {
	runScripts(t, "testdata/script", scriptCommands())
}

func runScripts(t *testing.T, dir string, cmds map[string]func(ts *testscript.TestScript, neg bool, args []string)) {
	dir, err := filepath.Abs(dir) // it is read while another script has its own directory
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{Dir: dir, RequireExplicitExec: true, RequireUniqueNames: true, Cmds: cmds})
}

func scriptCommands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	return map[string]func(ts *testscript.TestScript, neg bool, args []string){
		"run": runHere, "exits": exits, "let": let, "json": jsonIs, "sum": sum, "until": until, "serve": serveScript,
		"spoil": spoil, "pause": pause, "say": say, "uuid": asUUID,
	}
}

// workingDirectory is held while a command of a script runs in this process, which has one working directory.
var workingDirectory sync.Mutex

// execute runs a command line and returns its exit code and what it said.
func execute(ts *testscript.TestScript, args []string) (code int, stdout, stderr string) {
	if len(args) > 1 && args[0] == "run" && args[1] == "pawl" {
		workingDirectory.Lock()
		defer workingDirectory.Unlock()
		was, err := os.Getwd()
		ts.Check(err)
		ts.Check(os.Chdir(ts.MkAbs(".")))
		defer func() { ts.Check(os.Chdir(was)) }()
		var out, said words
		code = run(args[2:], nil, strings.NewReader(""), &out, &said)
		return code, string(out.said), string(said.said)
	}
	err := ts.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	return code, ts.ReadFile("stdout"), ts.ReadFile("stderr")
}

// words are written by several goroutines, as a file is.
type words struct {
	mu   sync.Mutex
	said []byte
}

func (w *words) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.said = append(w.said, p...)
	return len(p), nil
}

func runHere(ts *testscript.TestScript, neg bool, args []string) {
	code, stdout, stderr := execute(ts, append([]string{"run"}, args...))
	said(ts, stdout, stderr)
	if (code != 0) != neg {
		ts.Fatalf("exit code %d, want (not: %t) 0\n%s%s", code, neg, stdout, stderr)
	}
}

func said(ts *testscript.TestScript, stdout, stderr string) {
	_, _ = ts.Stdout().Write([]byte(stdout))
	_, _ = ts.Stderr().Write([]byte(stderr))
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got, stdout, stderr := execute(ts, args[1:])
	said(ts, stdout, stderr)
	if got != want {
		ts.Fatalf("exit code %d, want %d\n%s%s", got, want, stdout, stderr)
	}
}

// at reads a path like items.0.id from the last line of stdout. Text comes
// without quotes, all else as JSON.
func at(ts *testscript.TestScript, path string) string {
	lines := strings.Split(strings.TrimSpace(ts.ReadFile("stdout")), "\n")
	dec := json.NewDecoder(strings.NewReader(lines[len(lines)-1]))
	dec.UseNumber()
	var v any
	ts.Check(dec.Decode(&v))
	for step := range strings.SplitSeq(path, ".") {
		switch x := v.(type) {
		case map[string]any:
			v = x[step]
		case []any:
			i, err := strconv.Atoi(step)
			ts.Check(err)
			if i >= len(x) {
				ts.Fatalf("%s: there are only %d", path, len(x))
			}
			v = x[i]
		default:
			ts.Fatalf("%s: nothing at %s", path, step)
		}
	}
	if text, ok := v.(string); ok {
		return text
	}
	raw, err := json.Marshal(v)
	ts.Check(err)
	return string(raw)
}

func let(ts *testscript.TestScript, neg bool, args []string) { ts.Setenv(args[0], at(ts, args[1])) }

func asUUID(ts *testscript.TestScript, neg bool, args []string) {
	b, err := ulid.ParseStrict(args[1][len("tsk_"):])
	ts.Check(err)
	ts.Setenv(args[0], fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

func jsonIs(ts *testscript.TestScript, neg bool, args []string) {
	if got := at(ts, args[0]); (got == args[1]) == neg {
		ts.Fatalf("%s is %s, want (not: %t) %s", args[0], got, neg, args[1])
	}
}

func sum(ts *testscript.TestScript, neg bool, args []string) {
	var queues []struct{ Points []map[string]any }
	ts.Check(json.Unmarshal([]byte(ts.ReadFile("stdout")), &queues))
	total := 0.0
	for _, q := range queues {
		for _, p := range q.Points {
			n, ok := p[args[0]].(float64)
			if !ok {
				ts.Fatalf("%s is %v in %v", args[0], p[args[0]], p)
			}
			total += n
		}
	}
	if got := strconv.FormatFloat(total, 'f', -1, 64); (got == args[1]) == neg {
		ts.Fatalf("the sum of %s is %s, want (not: %t) %s", args[0], got, neg, args[1])
	}
}

func until(ts *testscript.TestScript, neg bool, args []string) {
	want := regexp.MustCompile(args[0])
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		code, stdout, stderr := execute(ts, args[1:])
		if code == 0 && want.MatchString(stdout) {
			said(ts, stdout, stderr)
			return
		}
		if time.Now().After(end) {
			ts.Fatalf("it never said %s (exit code %d)", want, code)
		}
	}
}

func pause(ts *testscript.TestScript, neg bool, args []string) {
	d, err := time.ParseDuration(args[0])
	ts.Check(err)
	time.Sleep(d)
}

// serve starts a server on a port of its own.
func serveScript(ts *testscript.TestScript, neg bool, args []string) {
	path, err := exec.LookPath("pawl")
	ts.Check(err)
	cmd := exec.Command(path, append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), []string{"HOME=" + ts.MkAbs(".")}
	log, err := cmd.StderrPipe()
	ts.Check(err)
	ts.Check(cmd.Start())
	found := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(log); lines.Scan(); {
			if _, rest, ok := strings.Cut(lines.Text(), "url="); ok {
				found <- strings.Fields(rest)[0]
			}
		}
		close(found)
	}()
	url, ok := <-found
	if !ok {
		ts.Fatalf("the server did not start: %v", cmd.Wait())
	}
	ts.Setenv("URL", url)
	ts.Defer(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
}

func spoil(ts *testscript.TestScript, neg bool, args []string) {
	ctx := context.Background()
	e, err := engine.Open(ctx, "sqlite:"+filepath.Join(ts.MkAbs("."), args[0]))
	ts.Check(err)
	defer e.Close()
	ts.Check(e.DB().Do(ctx, func(ctx context.Context, tx store.Tx) error {
		_, err := tx.Exec(ctx, args[1])
		return err
	}))
}

func say(ts *testscript.TestScript, neg bool, args []string) {
	ctx := context.Background()
	e, err := engine.Open(ctx, "sqlite:"+ts.MkAbs("pawl.db"))
	ts.Check(err)
	defer e.Close()
	m, err := e.GetMessage(ctx, args[0])
	ts.Check(err)
	attempt, err := strconv.Atoi(args[2])
	ts.Check(err)
	c := pawl.AppendCall{MessageFence: pawl.MessageFence{MessageID: m.ID, WorkerID: args[1], Attempt: attempt}, Offset: m.Offset}
	for _, arg := range args[3:] {
		text, err := strconv.Unquote(`"` + arg + `"`)
		ts.Check(err)
		c.Chunks = append(c.Chunks, pawl.Chunk{Type: pawl.ChunkText, Text: pawl.Words(text)})
	}
	rs, err := e.Append(ctx, []pawl.AppendCall{c})
	ts.Check(err)
	ts.Check(rs[0].Err)
}
