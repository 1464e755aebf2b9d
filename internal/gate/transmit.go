package gate

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"syscall"
	"time"
)

// maxIdleConns bounds the connections to one host that are kept.
const maxIdleConns = 64

// client returns a client that follows no redirect.
func client(set func(*http.Transport)) *http.Client {
	t := http.DefaultTransport.(*http.Transport).Clone()
	set(t)
	return &http.Client{Transport: t, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func keep(t *http.Transport) { t.MaxIdleConns, t.MaxIdleConnsPerHost = 0, maxIdleConns }

func keepNot(t *http.Transport) { t.DisableKeepAlives = true }

// keepShortly keeps connections for less time than services do. HTTP/2 has repetitions of its own.
func keepShortly(t *http.Transport) {
	keep(t)
	t.IdleConnTimeout, t.Protocols, t.ForceAttemptHTTP2 = time.Second, new(http.Protocols), false
	t.Protocols.SetHTTP1(true)
	if t.TLSClientConfig != nil { // a copy of http.DefaultTransport offers HTTP/2 in the handshake, and would not speak it
		t.TLSClientConfig.NextProtos = nil
	}
}

// transmit sends the request of an effect once. On a connection that was kept, net/http sends a request with an idempotency
// key again when no answer comes, and nothing says whether the first one arrived. Without GetBody it sends no body
// again; a request without a body has a connection of its own.
func (c *call) transmit(ctx context.Context, key string) (*http.Response, error) {
	if len(c.body) == 0 {
		return c.g.alone.Do(c.request(ctx, key))
	}
	ended := false // before the request: nothing of it was written
	r := c.request(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if got.Reused && !silent(got.Conn) {
			ended = true
			_ = got.Conn.Close() // no later write succeeds
		}
	}}), key)
	r.GetBody = nil
	res, err := c.g.sends.Do(r)
	if !ended {
		return res, err
	}
	if err == nil { // an answer to nothing
		_ = res.Body.Close()
	}
	return c.g.alone.Do(c.request(ctx, key))
}

// silent reports whether nothing has come through a connection that nothing was asked for, also not its end.
func silent(c net.Conn) bool {
	if t, is := c.(*tls.Conn); is {
		c = t.NetConn()
	}
	of, is := c.(syscall.Conn)
	if !is {
		return false
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return false
	}
	quiet := false
	err = raw.Control(func(fd uintptr) { quiet = nothingCame(fd) })
	return err == nil && quiet
}
