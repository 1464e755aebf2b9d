package push

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// A callee may go on within its request after it has answered 202: the rest of the answer is read, and a server that
// stops meanwhile does not release the item.
func TestAnAcceptedCallIsReadToItsEnd(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	task := make1(t, p)
	written := make(chan error, 1)
	pusher := called(t, p, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			defer conn.Close()
			err = conn.(*net.TCPConn).SetWriteBuffer(4096) // with what the other end keeps, less than is written
		}
		if err == nil {
			_, err = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat(" ", 900_000))
		}
		written <- err
		_, _ = io.Copy(io.Discard, conn)
	})
	pusher.grace = time.Millisecond
	pusher.lines[0].poster = longer(t, pusher)
	stop := running(t, pusher)
	if err := <-written; err != nil {
		t.Errorf("the answer is cut off: %v", err)
	}
	stop()
	if it := itemOf(t, p, task); it.State != pawl.ItemInProgress {
		t.Errorf("%s, %d failures", it.State, it.Failures)
	}
}
