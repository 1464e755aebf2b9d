//go:build unix

package gate

import (
	"net"
	"testing"
	"time"
)

// A connection that was kept is used only if its service has neither ended it nor said something on it.
func TestWhatCameThroughAKeptConnection(t *testing.T) {
	for what, come := range map[string]func(net.Conn) error{
		"its end":   net.Conn.Close,
		"an answer": func(c net.Conn) error { _, err := c.Write([]byte("HTTP/1.1 408 Request Timeout\r\n\r\n")); return err },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		service, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if !silent(c) {
			t.Errorf("before %s, something came", what)
		}
		if err := come(service); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); silent(c); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%s is not seen", what)
			}
		}
		_, _, _ = c.Close(), service.Close(), l.Close()
	}
}
