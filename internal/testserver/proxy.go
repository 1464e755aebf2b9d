package testserver

import (
	"context"
	"net"
	"sync"
)

// Proxy forwards TCP connections to a server. While it is frozen, connections stay
// open, new ones are accepted, and no bytes are forwarded.
type Proxy struct {
	Addr string

	to       string
	listener net.Listener
	work     sync.WaitGroup
	mu       sync.Mutex
	changed  *sync.Cond
	frozen   bool
	closed   bool
	open     map[net.Conn]side
}

type side string

const (
	ofClient side = "client"
	ofServer side = "server"
)

// NewProxy starts a proxy for the server at an address. The caller closes it.
func NewProxy(ctx context.Context, to string) (*Proxy, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{Addr: l.Addr().String(), to: to, listener: l, open: map[net.Conn]side{}}
	p.changed = sync.NewCond(&p.mu)
	p.work.Go(p.accept)
	return p, nil
}

// Freeze stops all traffic. The server keeps the transactions that are open, with their locks.
func (p *Proxy) Freeze() { p.set(func() { p.frozen = true }) }

// Lose is Freeze, and the server ends its connections, which clients do not learn: their transactions are gone, as those of
// a server that another one has replaced.
func (p *Proxy) Lose() {
	p.set(func() {
		p.frozen = true
		for c, of := range p.open {
			if of == ofServer {
				_ = c.Close()
			}
		}
	})
}

// Redirect ends the open connections. New ones are forwarded to another address.
func (p *Proxy) Redirect(to string) {
	p.set(func() {
		p.to = to
		for c := range p.open {
			_ = c.Close()
		}
	})
}

// Thaw resumes traffic, with what arrived meanwhile first.
func (p *Proxy) Thaw() { p.set(func() { p.frozen = false }) }

// Close ends the proxy and its connections.
func (p *Proxy) Close() error {
	err := p.listener.Close()
	p.set(func() {
		p.closed = true
		for c := range p.open {
			_ = c.Close()
		}
	})
	p.work.Wait()
	return err
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
	p.changed.Broadcast()
}

func (p *Proxy) accept() {
	for {
		in, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.work.Go(func() {
			defer p.drop(in)
			if !p.keep(in, ofClient) || !p.pass() {
				return
			}
			out, err := net.Dial("tcp", p.target())
			if err != nil {
				return
			}
			defer p.drop(out)
			if !p.keep(out, ofServer) {
				return
			}
			p.work.Go(func() { p.copy(out, in) })
			p.copy(in, out)
		})
	}
}

// copy forwards bytes until either connection ends, then closes both.
func (p *Proxy) copy(to, from net.Conn) {
	defer p.drop(to)
	defer p.drop(from)
	b := make([]byte, 32<<10)
	for {
		n, err := from.Read(b)
		if !p.pass() {
			return
		}
		_, _ = to.Write(b[:n]) // the next read fails too
		if err != nil {
			return
		}
	}
}

// pass waits while the proxy is frozen. It returns false when the proxy is closed.
func (p *Proxy) pass() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.frozen && !p.closed {
		p.changed.Wait()
	}
	return !p.closed
}

func (p *Proxy) target() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to
}

func (p *Proxy) keep(c net.Conn, of side) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[c] = of
	return !p.closed
}

func (p *Proxy) drop(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, c)
	_ = c.Close()
}
