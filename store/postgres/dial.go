package postgres

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/pawl-work/pawl/internal/clock"
)

// The kernel detects a peer that is gone without closing the connection: on an idle
// connection by keepalives, on one with unacknowledged data by the user timeout.
const (
	aliveIdle   = 5 * time.Second
	aliveEvery  = 5 * time.Second
	aliveCount  = 2
	userTimeout = 10 * time.Second
)

// trackedConns has the open connections of a database.
type trackedConns struct {
	first time.Duration // how long the first answer may take
	mu    sync.Mutex
	open  map[*trackedConn]bool
}

// trackedConn is a connection that records when the server last sent data.
type trackedConn struct {
	net.Conn
	heard atomic.Int64 // when the server last sent data, in microseconds
	mute  *time.Timer  // closes a connection without a first answer; nil = the connection may stay silent
	of    *trackedConns
	spare atomic.Bool // the server may be silent for long
}

// dial opens every connection of the database.
func (w *trackedConns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: aliveIdle, Interval: aliveEvery, Count: aliveCount},
		Control: func(network, _ string, raw syscall.RawConn) error {
			if network == "unix" {
				return nil
			}
			return raw.Control(func(fd uintptr) { setUserTimeout(fd, userTimeout) })
		}}
	c, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	out := &trackedConn{Conn: c, of: w}
	began := clock.Now().UnixMicro()
	out.heard.Store(began)
	if w.first > 0 { // without it, the driver's cancel requests would wait longer and block a pool connection
		out.mute = time.AfterFunc(w.first, func() {
			if out.heard.Load() == began {
				_ = out.Close()
			}
		})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = map[*trackedConn]bool{}
	}
	w.open[out] = true
	return out, nil
}

// closeSilent closes the connections on which the server has sent nothing for the given
// time.
func (w *trackedConns) closeSilent(silent time.Duration) {
	before := clock.Now().Add(-silent).UnixMicro()
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.open {
		if c.heard.Load() <= before && !c.spare.Load() {
			_ = c.Conn.Close()
			delete(w.open, c)
		}
	}
}

// spare says whether the server may be silent on a connection for long.
func (w *trackedConns) spare(c *pgx.Conn, is bool) {
	wire := c.PgConn().Conn()
	if t, ok := wire.(interface{ NetConn() net.Conn }); ok { // TLS
		wire = t.NetConn()
	}
	if t, ok := wire.(*trackedConn); ok {
		t.spare.Store(is)
	}
}

// Read implements net.Conn.
func (c *trackedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.heard.Store(clock.Now().UnixMicro())
	}
	return n, err
}

// Close implements net.Conn.
func (c *trackedConn) Close() error {
	c.of.mu.Lock()
	delete(c.of.open, c)
	c.of.mu.Unlock()
	if c.mute != nil {
		c.mute.Stop()
	}
	c.await()
	return c.Conn.Close()
}

// closeLimit is how long Close waits for the server.
const closeLimit = 250 * time.Millisecond

// await waits until the server has ended the session, so that a connection after this one is not one
// too many.
func (c *trackedConn) await() {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil || c.Conn.SetReadDeadline(clock.Now().Add(closeLimit)) != nil {
		return
	}
	rest := make([]byte, 512)
	for {
		if _, err := c.Conn.Read(rest); err != nil {
			return
		}
	}
}
