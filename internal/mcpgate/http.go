package mcpgate

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/pawl-work/pawl"
)

// remote is a server over streamable HTTP, of either revision.
type remote struct {
	url     string
	headers http.Header
	client  *http.Client
	ctx     context.Context
	stop    context.CancelFunc
	got     chan []byte
	lost    func(ctx context.Context, id json.RawMessage, why string)
	posts   sync.WaitGroup

	mu       sync.Mutex
	session  string
	revision string // that initialize has answered
	listens  bool
	params   map[string][]param // by tool
}

// Remote returns a connection to a server at a URL. headers are sent with each request: credentials.
func Remote(ctx context.Context, address string, headers http.Header) Conn {
	ctx, stop := context.WithCancel(ctx)
	fresh := http.DefaultTransport.(*http.Transport).Clone()
	fresh.DisableKeepAlives = true // on a kept connection net/http may send a request again
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &remote{url: address, headers: headers, client: &http.Client{Transport: fresh, CheckRedirect: stay}, ctx: ctx, stop: stop,
		got: make(chan []byte)}
}

func (c *remote) onLoss(fn func(ctx context.Context, id json.RawMessage, why string)) { c.lost = fn }

// Send implements Conn. The answer comes later, by Receive.
func (c *remote) Send(_ context.Context, m *message) error {
	r, err := http.NewRequestWithContext(c.ctx, http.MethodPost, c.url, bytes.NewReader(m.text))
	if err != nil {
		return err
	}
	r.GetBody = nil // it is sent once
	c.prepare(r, m)
	r.Header.Set("Content-Type", "application/json")
	if !m.isRequest() { // what follows a notification may rely on it
		c.post(r, m)
		return nil
	}
	c.posts.Go(func() { c.post(r, m) })
	return nil
}

// The members of _meta and the headers of the newer revision.
const revisionMeta = "io.modelcontextprotocol/protocolVersion"

// prepare sets the headers of a request.
func (c *remote) prepare(r *http.Request, m *message) {
	r.Header = c.headers.Clone()
	if r.Header == nil {
		r.Header = http.Header{}
	}
	r.Header.Set("Accept", "application/json, text/event-stream")
	c.mu.Lock()
	session, revision := c.session, c.revision
	c.mu.Unlock()
	var params struct {
		Name      string                     `json:"name"`
		URI       string                     `json:"uri"`
		Arguments json.RawMessage            `json:"arguments"`
		Meta      map[string]json.RawMessage `json:"_meta"`
	}
	if m != nil && json.Unmarshal(m.Params, &params) == nil && params.Meta[revisionMeta] != nil {
		_ = json.Unmarshal(params.Meta[revisionMeta], &revision) // the server refuses another kind
		r.Header.Set("Mcp-Method", m.Method)
		named := slices.Contains([]string{"tools/call", "prompts/get", "resources/read"}, m.Method)
		if name := params.Name + params.URI; name != "" && named {
			r.Header.Set("Mcp-Name", name)
		}
		if m.Method == "tools/call" {
			c.setParams(r.Header, params.Name, params.Arguments)
		}
	}
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if revision != "" {
		r.Header.Set("Mcp-Protocol-Version", revision)
	}
}

// post sends a request and passes on what comes back.
func (c *remote) post(r *http.Request, m *message) {
	res, err := c.client.Do(r)
	if err != nil {
		c.miss(m, "the server does not answer: "+bare(err).Error())
		return
	}
	defer res.Body.Close()
	if id := res.Header.Get("Mcp-Session-Id"); id != "" {
		c.mu.Lock()
		c.session = id
		c.mu.Unlock()
	}
	kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
	switch {
	case kind == "text/event-stream" && res.StatusCode < 300:
		if !c.stream(res.Body, m) && m.isRequest() {
			c.miss(m, "the stream ended without an answer")
		}
	case res.StatusCode == http.StatusAccepted:
		if m.isRequest() {
			c.miss(m, "the server accepted the request and sent no answer")
		}
	default:
		body, err := io.ReadAll(io.LimitReader(res.Body, pawl.MaxBodyBytes+1))
		answer, bad := readMessage(body)
		switch {
		case err != nil || len(body) > pawl.MaxBodyBytes:
			c.miss(m, "the server's answer is over the limit, or ended early")
		case bad != nil || !answer.isResponse():
			c.miss(m, "the server answered "+res.Status)
		default:
			c.take(&answer, m)
		}
	}
	if m.Method == "notifications/initialized" {
		c.listen()
	}
}

// miss says that a request has no answer.
func (c *remote) miss(m *message, why string) {
	if m.isRequest() && c.lost != nil && c.ctx.Err() == nil {
		c.lost(c.ctx, m.ID, why)
	}
}

// take passes a message of the server on. It notes the revision that initialize agrees on.
func (c *remote) take(answer *message, m *message) {
	if m != nil && m.Method == "initialize" && answer.Result != nil {
		var result struct {
			Revision string `json:"protocolVersion"`
		}
		if json.Unmarshal(answer.Result, &result) == nil {
			c.mu.Lock()
			c.revision = result.Revision
			c.mu.Unlock()
		}
	}
	c.learn(m, answer)
	select {
	case c.got <- answer.text:
	case <-c.ctx.Done():
	}
}

// stream passes the messages of a stream on. It returns whether the answer of m was among them.
func (c *remote) stream(body io.Reader, m *message) (answered bool) {
	r := bufio.NewReaderSize(body, 64<<10)
	var data []byte
	for {
		line, err := readLine(r)
		text := bytes.TrimRight(line, "\r\n")
		if more, is := bytes.CutPrefix(text, []byte("data:")); is {
			data = append(append(data, bytes.TrimPrefix(more, []byte(" "))...), '\n')
		}
		if len(data) > pawl.MaxBodyBytes {
			return answered
		}
		if len(text) == 0 && len(bytes.TrimSpace(data)) > 0 && err == nil {
			data = bytes.TrimSpace(data)
			got, bad := readMessage(data)
			if bad != nil {
				got = message{text: data}
			}
			answered = answered || m != nil && got.isResponse() && idOf(got.ID) == idOf(m.ID)
			c.take(&got, m)
			data = nil
		}
		if err != nil {
			return answered
		}
	}
}

// listen opens the stream of the older revision on which the server asks and tells by itself.
func (c *remote) listen() {
	c.mu.Lock()
	first := !c.listens
	c.listens = true
	c.mu.Unlock()
	if !first {
		return
	}
	c.posts.Go(func() {
		for c.ctx.Err() == nil {
			r, err := http.NewRequestWithContext(c.ctx, http.MethodGet, c.url, http.NoBody)
			if err != nil {
				return
			}
			c.prepare(r, nil)
			r.Header.Set("Accept", "text/event-stream")
			res, err := c.client.Do(r)
			if err == nil {
				kind, _, _ := mime.ParseMediaType(res.Header.Get("Content-Type"))
				has := res.StatusCode == http.StatusOK && kind == "text/event-stream"
				if has {
					c.stream(res.Body, nil)
				}
				res.Body.Close()
				if !has {
					return
				}
			}
			select {
			case <-c.ctx.Done():
			case <-time.After(time.Second):
			}
		}
	})
}

// Receive implements Conn.
func (c *remote) Receive(ctx context.Context) ([]byte, error) {
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case text := <-c.got:
		return text, nil
	}
}

// closeTime bounds the end of a session.
const closeTime = 5 * time.Second

// Close implements Conn. It ends the session, as the older revision asks for.
func (c *remote) Close() error {
	c.mu.Lock()
	session := c.session
	c.mu.Unlock()
	if session != "" && c.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(c.ctx, closeTime)
		defer cancel()
		if r, err := http.NewRequestWithContext(ctx, http.MethodDelete, c.url, http.NoBody); err == nil {
			c.prepare(r, nil)
			if res, err := c.client.Do(r); err == nil {
				res.Body.Close()
			}
		}
	}
	c.stop()
	c.posts.Wait()
	return nil
}

// bare is an error of a client without the address, which may have a secret in it.
func bare(err error) error {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err
	}
	return err
}
