package push

import (
	"bufio"
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
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

// exampleFile returns the path of an example: the one that internal/mutants has changed, if there is one.
func exampleFile(name string) string {
	for _, root := range []string{os.Getenv("PAWL_TEST_PATCHED"), "../.."} {
		path := filepath.Join(root, "examples", "push", name)
		if _, err := os.Stat(path); root != "" && err == nil {
			return path
		}
	}
	return name
}

// example starts an example, which calls Pawl at a URL, and returns its own URL.
func example(t *testing.T, program, name, api string) string {
	cmd := exec.Command(program, exampleFile(name))
	cmd.Env = append(os.Environ(), "PORT=0", "PUSH_SECRET="+secret, "PAWL_SERVER="+api, "NODE_NO_WARNINGS=1")
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
	return strings.TrimSpace(url)
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
			for _, none := range []string{"", "whsec_"} {
				cmd := exec.CommandContext(t.Context(), program(t), exampleFile(name))
				cmd.Env = append(os.Environ(), "PORT=0", "PUSH_SECRET="+none)
				end := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Signal(os.Interrupt) })
				if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "PUSH_SECRET is") {
					t.Errorf("with the secret %q: %v %s", none, err, out)
				}
				end.Stop()
			}
			url := example(t, program(t), name, api.URL)
			cutOff(t, url)
			pusher, err := New(Options{Service: p.Service, Log: quiet,
				Targets: map[string]Target{typ: {URL: url, Secrets: []string{secret}, AllowPrivate: true}}})
			if err != nil {
				t.Fatal(err)
			}
			long := strings.Repeat("€", 100_000) // it arrives in several pieces, which end within characters
			if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: typ, Payload: json.RawMessage(`{"other":1}`)}); err != nil {
				t.Fatal(err)
			}
			once(t, pusher) // a call that fails
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

// cutOff begins a request and closes its connection before it is whole.
func cutOff(t *testing.T, url string) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err == nil {
		_, err = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nabc")
	}
	if err == nil {
		err = conn.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The result of a call that was answered with 202 is reported again when Pawl is away for a moment.
func TestTheExampleReportsAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	reported := make(chan string, 1)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1:
			panic(http.ErrAbortHandler) // the connection breaks
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			reported <- r.URL.Path
		}
	}))
	t.Cleanup(api.Close)
	url := example(t, node(t), "function.ts", api.URL)
	body := []byte(`{"id":"itm_1","worker_id":"w","attempt":1,"input":{"words":["a"],"slow":true}}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("webhook-id", "m1")
	req.Header.Set("webhook-timestamp", at)
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		t.Fatal(err)
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "m1.%s.%s", at, body)
	req.Header.Set("webhook-signature", "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		t.Fatalf("answered with %s", resp.Status)
	}
	select {
	case path := <-reported:
		if path != "/v1/items/itm_1:complete" {
			t.Error(path)
		}
	case <-time.After(time.Minute):
		t.Error("the result is not reported")
	}
}
