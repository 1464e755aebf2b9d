package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) {
	if address := os.Getenv("PAYMENTS_TEST"); address != "" {
		if err := run(context.Background(), address, "", 2); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	pawltest.Main(m)
}

// service counts what it is paid. It stops the first agent before it answers.
type service struct {
	mu   sync.Mutex
	paid []string
	stop func()
}

func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer sk_test" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.paid = append(s.paid, string(body))
	charge, stop := len(s.paid), s.stop
	s.stop = nil
	s.mu.Unlock()
	if stop != nil {
		stop()
	}
	fmt.Fprintf(w, `{"charge":"ch_%d"}`, charge)
}

// serve starts `pawl serve` with the settings of the example, and returns its address.
func serve(t *testing.T, upstream string) string {
	t.Helper()
	dir := t.TempDir()
	program := os.Getenv("PAWL_TEST_PROGRAM")
	if program == "" {
		program = filepath.Join(dir, "pawl")
		if out, err := exec.Command("go", "build", "-o", program, "github.com/pawl-work/pawl/cmd/pawl").CombinedOutput(); err != nil {
			t.Fatalf("build: %v\n%s", err, out)
		}
	}
	settings, err := os.ReadFile("pay.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(settings), "https://api.example.com/v1", upstream, 1)
	if err := os.WriteFile(filepath.Join(dir, "pay.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "serve", "--config", "pay.yaml", "--addr", "127.0.0.1:0", "--db", "sqlite:pay.db")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "PAY_KEY=Bearer sk_test")
	log, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if m := regexp.MustCompile(`url=(http://\S+)`).FindStringSubmatch(lines.Text()); m != nil {
			go func() {
				for lines.Scan() {
				}
			}()
			return m[1]
		}
	}
	t.Fatal("the server does not start")
	return ""
}

// agent starts the program in a process of its own.
func agent(t *testing.T, address string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PAYMENTS_TEST="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func TestAnAgentThatIsKilledPaysOnce(t *testing.T) {
	s := &service{}
	stub := httptest.NewServer(s)
	defer stub.Close()
	address := serve(t, stub.URL)
	svc := client.New(address, "")
	task, err := pawl.Create(t.Context(), svc, pawl.NewTask{Type: "invoice", Payload: json.RawMessage(`{"number":"R-17","cents":4000}`)})
	if err != nil {
		t.Fatal(err)
	}
	killed := make(chan struct{})
	s.mu.Lock()
	first := agent(t, address)
	s.stop = func() { _ = first.Process.Kill(); close(killed) }
	s.mu.Unlock()
	<-killed
	agent(t, address)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := pawl.Await(ctx, svc, task.ID); err != nil {
		t.Fatal(err)
	}
	result, err := svc.TaskResult(t.Context(), task.ID)
	if err != nil || !strings.Contains(string(result.Payload), "ch_1") {
		t.Errorf("the result is %s (%v)", result.Payload, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.paid) != 1 {
		t.Errorf("it was paid %d times: %v", len(s.paid), s.paid)
	}
	list, err := svc.ListEffects(t.Context(), pawl.EffectFilter{TaskID: task.ID})
	if err != nil || len(list.Items) != 1 || list.Items[0].State != pawl.EffectDone {
		t.Errorf("the effects are %+v (%v)", list.Items, err)
	}
}
