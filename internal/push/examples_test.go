package push

import (
	"bufio"
	"encoding/json"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// node is a Node that runs TypeScript.
func node(t *testing.T) string {
	out, err := exec.Command("../npm", "internal/node").Output()
	if err != nil {
		t.Fatalf("internal/npm: %v", err)
	}
	return filepath.Join(filepath.SplitList(strings.TrimSpace(string(out)))[0], "node")
}

// example returns the path of an example: the one that internal/mutants has changed, if there is one.
func example(name string) string {
	for _, root := range []string{os.Getenv("PAWL_TEST_PATCHED"), "../.."} {
		path := filepath.Join(root, "examples", "push", name)
		if _, err := os.Stat(path); root != "" && err == nil {
			return path
		}
	}
	return name
}

func TestTheExamples(t *testing.T) {
	for name, program := range map[string]func(*testing.T) string{
		"function.py": func(*testing.T) string { return "python3" },
		"function.ts": node,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pawltest.Open(t, pawltest.SQLite)
			api := httptest.NewServer(server.New(p.Service, server.Options{Log: quiet}))
			t.Cleanup(api.Close)
			cmd := exec.Command(program(t), example(name))
			cmd.Env = append(os.Environ(), "PORT=0", "PUSH_SECRET="+secret, "PAWL_SERVER="+api.URL, "NODE_NO_WARNINGS=1")
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				_ = cmd.Process.Kill()
				_ = cmd.Wait()
			})
			url, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			pusher, err := New(Options{Service: p.Service, Log: quiet,
				Targets: map[string]Target{typ: {URL: strings.TrimSpace(url), Secrets: []string{secret}, AllowPrivate: true}}})
			if err != nil {
				t.Fatal(err)
			}
			long := strings.Repeat("€", 100_000) // it arrives in several pieces, which end within characters
			for _, payload := range []string{`{"words":["a","b"]}`, `{"words":["c","d"],"slow":true}`, `{"words":["` + long + `"]}`} {
				task, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: typ, Payload: json.RawMessage(payload)})
				if err != nil {
					t.Fatal(err)
				}
				once(t, pusher)
				it := itemOf(t, p, task.ID)
				end := time.Now().Add(20 * time.Second)
				for ; it.State == pawl.ItemInProgress && time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
					it = itemOf(t, p, task.ID)
				}
				var said struct{ Text string }
				_ = json.Unmarshal(it.Result, &said) // nothing is compared below
				if it.State != pawl.ItemCompleted || said.Text == "" || strings.Contains(payload, long) && said.Text != long {
					t.Errorf("%.99s: %s %.99s %+v", payload, it.State, it.Result, it.Error)
				}
			}
		})
	}
}
