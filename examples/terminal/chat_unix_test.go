//go:build unix

package main

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) {
	if side := os.Getenv("CHAT_TEST_SIDE"); side != "" {
		if err := run(os.Getenv("CHAT_TEST_DB"), "main", "", side == "answer"); err != nil {
			panic(err)
		}
		os.Exit(0)
	}
	pawltest.Main(m)
}

// side is a running side of the chat.
type side struct {
	*exec.Cmd
	stdin io.Writer
	mu    sync.Mutex
	out   bytes.Buffer
}

func (s *side) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.Write(b)
}

func (s *side) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.out.String()
}

func start(t *testing.T, db, which string) *side {
	t.Helper()
	s := &side{Cmd: exec.Command(os.Args[0])}
	s.Env = append(os.Environ(), "CHAT_TEST_SIDE="+which, "CHAT_TEST_DB="+db)
	s.Stdout, s.Stderr = s, os.Stderr
	var err error
	if s.stdin, err = s.StdinPipe(); err == nil {
		err = s.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	return s
}

func (s *side) kill() {
	_ = s.Process.Kill()
	_ = s.Wait()
}

func (s *side) until(t *testing.T, words string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !strings.Contains(s.said(), words); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%q was not said:\n%s", words, s.said())
		}
	}
}

func TestAChatSurvivesEitherSide(t *testing.T) {
	db := "sqlite:" + filepath.Join(t.TempDir(), "chat.db")
	asker, answerer := start(t, db, "ask"), start(t, db, "answer")
	if _, err := io.WriteString(asker.stdin, "is anybody there\n"); err != nil {
		t.Fatal(err)
	}
	asker.until(t, "There are 3")
	answerer.kill() // in its second step
	start(t, db, "answer")
	asker.until(t, "another goes on")
	asker.kill()
	asker = start(t, db, "ask")
	asker.until(t, "> is anybody there\nYou said: “is anybody there”.")
	asker.until(t, "ask me something else.\n> ")
	said := asker.said()
	if strings.Count(said, "You said") != 1 || strings.Count(said, "[count ") != 1 || strings.Count(said, "There are 3") != 2 {
		t.Errorf("the whole conversation:\n%s", said)
	}
	if _, err := io.WriteString(asker.stdin, "and now\n"); err != nil {
		t.Fatal(err)
	}
	asker.until(t, "There are 2 of them")
	if err := asker.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	asker.until(t, "[stopped]")
}
