//go:build unix

package client_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// serveURL names the database of a server process; the process inherits its listener.
const serveURL = "PAWL_TEST_SERVE"

// beServer serves until it is killed.
func beServer(url, schema string) error {
	e, err := engine.OpenWith(context.Background(), url, engine.Options{Schema: schema})
	if err != nil {
		return err
	}
	go func() { _ = e.Run(context.Background()) }()
	ln, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	return http.Serve(ln, server.New(e, server.Options{}))
}

// Callers that repeat a call with its key until it is answered create every task once and get
// the same answer every time, however often the server is killed.
func TestServersKilledUnderCallersLoseAndRepeatNothing(t *testing.T) {
	kills := 8
	if os.Getenv("PAWL_TORTURE") != "" {
		kills = 100
	}
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			p := pawltest.OpenReal(t, which)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			base := "http://" + ln.Addr().String()
			ctx, stop := context.WithCancel(t.Context())
			var crowd sync.WaitGroup
			answers := make([]map[string][]byte, 32)
			answered := make(chan bool, 1)
			for n := range answers {
				answers[n] = map[string][]byte{}
				crowd.Go(func() { createUntilAnswered(ctx, t, base, n, answers[n], answered) })
			}
			for range kills {
				c := serveChild(t, p, ln)
				<-answered // the server is up
				time.Sleep(rand.N(300 * time.Millisecond))
				_ = c.Process.Kill()
				_ = c.Wait()
				for len(answered) > 0 { // of servers that were killed
					<-answered
				}
			}
			serveChild(t, p, ln)
			for range 32 {
				<-answered
			}
			stop()
			crowd.Wait()
			keys := 0
			for _, heard := range answers {
				for key, first := range heard {
					keys++
					again, replayed, err := create(t.Context(), base, key)
					if err != nil || !replayed || !bytes.Equal(again, first) {
						t.Fatalf("%s was answered %s, then %s (replayed %v, %v)", key, first, again, replayed, err)
					}
				}
			}
			seen := map[string]int{}
			q := pawl.TaskFilter{Page: pawl.Page{Limit: pawl.MaxPage}}
			for {
				l, err := p.Service.ListTasks(t.Context(), q)
				if err != nil {
					t.Fatal(err)
				}
				for _, task := range l.Items {
					if seen[string(task.Payload)]++; seen[string(task.Payload)] > 1 {
						t.Errorf("%s was made twice", task.Payload)
					}
				}
				if q.Cursor = l.Next; q.Cursor == "" {
					break
				}
			}
			for _, heard := range answers {
				for key := range heard {
					if seen[fmt.Sprintf("%q", key)] != 1 {
						t.Errorf("%s was accepted and made %d times", key, seen[fmt.Sprintf("%q", key)])
					}
				}
			}
			t.Logf("%d kills, %d answered calls, %d tasks", kills, keys, len(seen))
			if keys < 32 {
				t.Errorf("only %d calls were answered", keys)
			}
		})
	}
}

func serveChild(t *testing.T, p *pawltest.Pawl, ln net.Listener) *exec.Cmd {
	t.Helper()
	f, err := ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := exec.Command(os.Args[0], "-test.run=^$")
	c.Env = append(os.Environ(), serveURL+"="+p.URL, serveURL+"_SCHEMA="+p.Schema)
	c.ExtraFiles = []*os.File{f}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	return c
}

// createUntilAnswered creates tasks one after the other, each until it is answered. Now and then it asks
// again for an answer that it has.
func createUntilAnswered(ctx context.Context, t *testing.T, base string, n int, heard map[string][]byte, answered chan<- bool) {
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("c%d-%d", n, i)
		for ctx.Err() == nil {
			got, _, err := create(ctx, base, key)
			if err != nil {
				time.Sleep(rand.N(20 * time.Millisecond))
				continue
			}
			if first, known := heard[key]; known && !bytes.Equal(first, got) {
				t.Errorf("%s was answered %s, then %s", key, first, got)
			} else if !known {
				select {
				case answered <- true:
				default:
				}
			}
			heard[key] = got
			if rand.N(4) > 0 {
				break
			}
		}
	}
}

// create creates a task under a key. If the call is in flight elsewhere, or was lost with its
// server, it returns an error: try again.
func create(ctx context.Context, base, key string) (answer []byte, replayed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, base+"/v1/tasks",
		strings.NewReader(fmt.Sprintf(`{"type":"k","payload":%q}`, key)))
	if err != nil {
		return nil, false, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Idempotency-Key", key)
	req.Close = true // a killed server does not answer
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, false, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusCreated {
		err = fmt.Errorf("%d %s", resp.StatusCode, answer)
	}
	return answer, resp.Header.Get("Idempotency-Replayed") == "true", err
}
