package mcpgate

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"sync"

	"github.com/pawl-work/pawl"
)

// lines is a connection with a message a line, as on stdin and stdout.
type lines struct {
	out   io.Writer
	close func() error
	mu    sync.Mutex // one message at a time
	got   chan []byte
	done  chan struct{}
	once  sync.Once
	err   error // of reading, once got is closed
}

// errLong refuses a message that is over the bound.
var errLong = errors.New("a message is over the limit")

// Lines returns a connection that reads and writes a message a line. close ends it; nil = nothing to do.
func Lines(in io.Reader, out io.Writer, close func() error) Conn {
	l := &lines{out: out, close: close, got: make(chan []byte), done: make(chan struct{})}
	go l.read(in)
	return l
}

func (l *lines) read(in io.Reader) {
	defer close(l.got)
	r := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := readLine(r)
		if line = bytes.TrimSpace(line); len(line) > 0 {
			select {
			case l.got <- line:
			case <-l.done:
				return
			}
		}
		if err != nil {
			l.err = err
			return
		}
	}
}

// readLine reads a line of at most pawl.MaxBodyBytes.
func readLine(r *bufio.Reader) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if line = append(line, part...); len(line) > pawl.MaxBodyBytes {
			return nil, errLong
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// Send implements Conn.
func (l *lines) Send(_ context.Context, m *message) error {
	text := m.text
	if bytes.ContainsAny(text, "\n\r") {
		text = canonical(text)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.out.Write(append(bytes.Clone(text), '\n'))
	return err
}

// Receive implements Conn.
func (l *lines) Receive(ctx context.Context) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case line, more := <-l.got:
		if !more {
			return nil, l.err
		}
		return line, nil
	}
}

// Close implements Conn.
func (l *lines) Close() (err error) {
	l.once.Do(func() {
		close(l.done)
		if l.close != nil {
			err = l.close()
		}
	})
	return err
}
