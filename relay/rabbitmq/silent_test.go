package rabbitmq_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/relay"
	"github.com/pawl-work/pawl/relay/rabbitmq"
)

// answers are a broker's answers to the methods of a client: class and method, and the arguments
// of the answer. The first is to the protocol header.
var answers = []struct {
	to, answer [2]uint16
	args       string
}{
	{answer: [2]uint16{10, 10}, args: "\x00\x09\x00\x00\x00\x00\x00\x00\x00\x05PLAIN\x00\x00\x00\x05en_US"}, // connection.start
	{to: [2]uint16{10, 11}, answer: [2]uint16{10, 30}, args: "\x00\x00\x00\x02\x00\x00\x00\x0a"},            // tune: 128 KiB, 10 s
	{to: [2]uint16{10, 40}, answer: [2]uint16{10, 41}, args: "\x00"},                                        // open-ok
	{to: [2]uint16{20, 10}, answer: [2]uint16{20, 11}, args: "\x00\x00\x00\x00"},                            // channel.open-ok
	{to: [2]uint16{85, 10}, answer: [2]uint16{85, 11}},                                                      // confirm.select-ok
	{to: [2]uint16{40, 10}, answer: [2]uint16{40, 11}},                                                      // exchange.declare-ok
}

// silentBroker accepts connections, gives this many answers on each and then sends only
// heartbeats.
func silentBroker(t *testing.T, answers int) (url string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer c.Close()
				converse(c, answers)
			})
		}
	})
	return "amqp://pawl:secret@" + l.Addr().String()
}

// converse serves one connection of a silentBroker until the client closes it.
func converse(c net.Conn, n int) {
	if _, err := io.ReadFull(c, make([]byte, 8)); err != nil {
		return
	}
	method := [2]uint16{}
	for said := 0; ; {
		if said < n && method == answers[said].to {
			a := answers[said]
			payload := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, a.answer[0]), a.answer[1])
			payload = append(payload, a.args...)
			channel := uint16(0)
			if a.answer[0] != 10 {
				channel = 1
			}
			frame := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint16([]byte{1}, channel), uint32(len(payload)))
			if _, err := c.Write(append(append(frame, payload...), 0xCE)); err != nil {
				return
			}
			if said++; said == 3 { // the connection is open
				go beat(c)
			}
		}
		header := make([]byte, 7)
		if _, err := io.ReadFull(c, header); err != nil {
			return
		}
		body := make([]byte, binary.BigEndian.Uint32(header[3:])+1)
		if _, err := io.ReadFull(c, body); err != nil {
			return
		}
		if method = [2]uint16{}; header[0] == 1 {
			method = [2]uint16{binary.BigEndian.Uint16(body), binary.BigEndian.Uint16(body[2:])}
		}
	}
}

// beat sends heartbeats until the connection is closed.
func beat(c net.Conn) {
	for {
		time.Sleep(time.Second)
		if _, err := c.Write([]byte{8, 0, 0, 0, 0, 0, 0, 0xCE}); err != nil {
			return
		}
	}
}

// A broker that stops answering at any step delays a batch by 10 s, although it still sends
// heartbeats; not by the minute that a batch may take.
func TestSilentBroker(t *testing.T) {
	t.Parallel()
	var all sync.WaitGroup
	for n := range len(answers) + 1 {
		s := open(t, rabbitmq.Options{URL: silentBroker(t, n)})
		all.Go(func() {
			began := time.Now()
			for _, err := range s.Send(t.Context(), []relay.Message{message(0, "a", "leased"), message(1, "a", "leased")}) {
				if retryable, _ := pawl.RetryOf(err); !retryable || !strings.Contains(err.Error(), "has not answered for 10s") {
					t.Errorf("after %d answers: %v", n, err)
				}
			}
			if d := time.Since(began); d < 9*time.Second || d > 30*time.Second {
				t.Errorf("after %d answers it took %v", n, d)
			}
		})
	}
	all.Wait()
}
