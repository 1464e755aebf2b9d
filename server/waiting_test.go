package server_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// Who waits keeps the stack of the wait, not that of the call's way through the
// server: the runtime gives stacks back by half, as long as a quarter is enough.
func TestWhoWaitsKeepsLittleStack(t *testing.T) {
	bare := stackOfWaiting(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var way [1200]byte // as many as net/http itself keeps
		_, _ = r.Body.Read(way[:])
		<-r.Context().Done()
	}))
	ours := stackOfWaiting(t, server.New(pawltest.Open(t, pawltest.SQLite).Service, server.Options{}))
	if most := 3*bare + 2<<10; ours > most { // under the race detector all frames are larger
		t.Errorf("%d bytes, at most %d; of a handler that does nothing else %d", ours, most, bare)
	}
}

// stackOfWaiting is what each of many callers who wait for a claim keeps.
func stackOfWaiting(t *testing.T, h http.Handler) int {
	t.Helper()
	const callers = 200
	ts := httptest.NewServer(h)
	defer ts.Close()
	before, goroutines := stacks(), runtime.NumGoroutine()
	for i := range callers {
		c, err := net.Dial("tcp", ts.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		body := fmt.Sprintf(`{"worker_id":"w%d","types":["rare"],"wait_seconds":60}`, i)
		fmt.Fprintf(c, "POST /v1/claims HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	for end := time.Now().Add(30 * time.Second); runtime.NumGoroutine() < goroutines+2*callers; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("they do not come")
		}
	}
	time.Sleep(100 * time.Millisecond) // the last ones on their way
	return (stacks() - before) / callers
}

func stacks() int {
	for range 6 { // each gives back half
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.StackInuse)
}
