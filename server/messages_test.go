package server_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/api"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// speaking is a server with a reply that its writer has begun.
type speaking struct {
	*testServer
	item, message string
}

func speak(t *testing.T, p *pawltest.Pawl) *speaking {
	t.Helper()
	h := &testServer{t, p, serve(t, p.Service, server.Options{})}
	h.do(201, "POST", "/v1/tasks", `{"type":"chat","reply":{}}`)
	l := h.do(200, "POST", "/v1/claims", `{"worker_id":"w"}`).items()[0]
	return &speaking{h, l["id"].(string), l["open_message"].(map[string]any)["id"].(string)}
}

// post is a verb of the message, by its writer unless the body says otherwise.
func (s *speaking) post(verb, body string, headers ...string) reply {
	s.Helper()
	if !strings.Contains(body, `"worker_id"`) {
		body = `{"worker_id":"w","attempt":1` + strings.TrimSuffix(","+body, ",") + "}"
	}
	return ask(s.T, s.srv, "POST", "/v1/messages/"+s.message+":"+verb, body, headers...)
}

func text(offset int64, words ...string) string {
	chunks := make([]map[string]string, len(words))
	for i, w := range words {
		chunks[i] = map[string]string{"type": "text", "text": w}
	}
	b, _ := json.Marshal(chunks)
	return fmt.Sprintf(`"offset":%d,"chunks":%s`, offset, b)
}

// A writer whose call is invalid gets an error that says what is wrong or expected, and the
// message stays unchanged.
func TestBadChunksAreRefused(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		s := speak(t, p)
		if r := s.post("append", text(0, "a", "b", "c")); r.StatusCode != 200 || r.json["offset"] != 3.0 {
			t.Fatal(r.text)
		}
		for name, c := range map[string]struct {
			body   string
			status int
			code   pawl.Code
			says   string
		}{
			"a gap":                       {text(4, "e"), 409, pawl.CodeConflict, `"expected":3`},
			"from the future":             {text(1<<40, "e"), 409, pawl.CodeConflict, `"expected":3`},
			"another word in its place":   {text(1, "b", "x"), 409, pawl.CodeConflict, `"expected":3`},
			"over the end":                {text(2, "c", "d"), 409, pawl.CodeConflict, `"expected":3`},
			"another worker":              {`{"worker_id":"v","attempt":1,` + text(3, "d") + "}", 409, pawl.CodeLeaseLost, `"reason":"taken"`},
			"an attempt that is not":      {`{"worker_id":"w","attempt":2,` + text(3, "d") + "}", 409, pawl.CodeLeaseLost, `"reason":"taken"`},
			"5 MB in one":                 {text(3, strings.Repeat("x", 5<<20)), 400, pawl.CodeInvalid, `"/chunks/0/text"`},
			"9 MB in all":                 {text(3, strings.Repeat("x", 9<<20)), 413, pawl.CodeTooLarge, ""},
			"bytes that are no character": {`"offset":3,"chunks":[{"type":"text","text":"` + "\xff" + `"}]`, 400, pawl.CodeInvalid, ""},
			"half a character in bytes":   {`"offset":3,"chunks":[{"type":"text","text":"` + "\xf0\x9f" + `"}]`, 400, pawl.CodeInvalid, ""},
			"a NUL": {`"offset":3,"chunks":[{"type":"text","text":"d"},{"type":"text","text":"\u0000"}]`, 400,
				pawl.CodeInvalid, `"/chunks/1/text"`},
			"no such type":              {`"offset":3,"chunks":[{"type":"tool-call"}]`, 400, pawl.CodeInvalid, `"/chunks/0/type"`},
			"a member it does not have": {`"offset":3,"chunks":[{"type":"text","words":"d"}]`, 400, pawl.CodeInvalid, ""},
			"a member of another type": {`"offset":3,"chunks":[{"type":"text","text":"d","input":1}]`, 400, pawl.CodeInvalid,
				`"/chunks/0/input"`},
			"no chunks":            {`"offset":3,"chunks":[]`, 400, pawl.CodeInvalid, `"/chunks"`},
			"before the beginning": {text(-1, "d"), 400, pawl.CodeInvalid, `"/offset"`},
			"no offset":            {`"chunks":[{"type":"text","text":"d"}]`, 400, pawl.CodeInvalid, `"/offset"`},
		} {
			r := s.post("append", c.body)
			if r.StatusCode != c.status || r.str("code") != string(c.code) || !strings.Contains(r.text, c.says) ||
				r.Header.Get("Content-Type") != api.ProblemType {
				t.Errorf("%s: %d %s", name, r.StatusCode, r.text)
			}
		}
		if r := s.post("append", text(1, "b", "c")); r.StatusCode != 200 || r.json["offset"] != 3.0 {
			t.Errorf("a repeat: %s", r.text)
		}
		const content = `"content":[{"type":"text","text":"abc","status":"streaming"}]`
		if r := s.do(200, "GET", "/v1/messages/"+s.message, ""); !strings.Contains(r.text, content) {
			t.Errorf("after all that: %s", r.text)
		}
		// The attempt becomes stale; then the message ends.
		p.Advance(5 * time.Minute)
		if r := s.post("append", text(3, "d")); r.StatusCode != 409 || r.str("reason") != "expired" {
			t.Errorf("after the lease: %s", r.text)
		}
		s.do(200, "POST", "/v1/sweeps", "")
		s.do(200, "POST", "/v1/claims", `{"worker_id":"w2"}`)
		for _, verb := range []string{"append", "step", "finish"} {
			body := ""
			if verb == "append" {
				body = text(3, "d")
			}
			if r := s.post(verb, body); r.StatusCode != 409 || r.str("reason") != "taken" || r.str("holder") != "w2" {
				t.Errorf("%s by a stale attempt: %s", verb, r.text)
			}
		}
		mine := `{"worker_id":"w2","attempt":2`
		if r := s.post("finish", mine+"}"); r.StatusCode != 200 {
			t.Fatal(r.text)
		}
		for verb, body := range map[string]string{"append": mine + "," + text(3, "d") + "}", "step": mine + "}", "finish": mine + "}",
			"stop": `{"reason":"late"}`} {
			r := ask(t, s.srv, "POST", "/v1/messages/"+s.message+":"+verb, body)
			if r.StatusCode != 409 || r.str("code") != "conflict" || r.str("state") != "complete" || !strings.Contains(r.text, `"allowed":[]`) {
				t.Errorf("%s after the end: %s", verb, r.text)
			}
		}
	})
}

// An invalid position in a message is refused before the stream begins.
func TestPlacesThatAreNone(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		s := speak(t, p)
		s.post("append", text(0, "a", "b"))
		at := "/v1/messages/" + s.message + "/stream"
		for _, query := range []string{"?after=2", "?after=99", "?after=-2", "?after=9223372036854775808", "?after=b", "?behind=1"} {
			if r := ask(t, s.srv, "GET", at+query, ""); r.StatusCode != 400 || r.str("code") != "invalid" {
				t.Errorf("%s: %d %s", query, r.StatusCode, r.text)
			}
		}
		for _, last := range []string{"2", "msg_1", "-1", "1.5"} {
			if r := ask(t, s.srv, "GET", at, "", "Last-Event-ID", last); r.StatusCode != 400 {
				t.Errorf("Last-Event-ID %s: %d %s", last, r.StatusCode, r.text)
			}
		}
		if r := ask(t, s.srv, "GET", "/v1/messages/msg_none/stream", ""); r.StatusCode != 404 {
			t.Errorf("of no message: %s", r.text)
		}
		s.post("finish", "")
		const end = ":\n\nevent: end\ndata: {\"status\":\"complete\",\"offset\":2}\n\n"
		if r := ask(t, s.srv, "GET", at+"?after=0", "", "Last-Event-ID", "1"); r.text != end {
			t.Errorf("one who has it all: %q", r.text)
		}
	})
}

// hearing reads the frames of a message's stream and checks that every chunk comes once, in
// order.
type hearing struct {
	next  int64
	ended bool
	cuts  []string
}

// read takes frames until the message or the stream ends; half a frame at the end
// of a stream that broke does not count.
func (h *hearing) read(r io.Reader) error {
	in := bufio.NewReader(r)
	var event, id, data string
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return err
		}
		switch name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); {
		case name == "event":
			event = value
		case name == "id":
			id = value
		case name == "data":
			data = value
		case line == "\n" && event == api.FrameEnd:
			h.ended = true
			return nil
		case line == "\n" && event == api.FrameAbandoned:
			h.cuts = append(h.cuts, data)
		case line == "\n" && data != "":
			var f api.ChunkFrame
			if err := json.Unmarshal([]byte(data), &f); err != nil {
				return err
			}
			if f.Offset != h.next {
				return fmt.Errorf("chunk %d came when %d was due", f.Offset, h.next)
			}
			if h.next += int64(len(f.Chunks)); id != strconv.FormatInt(h.next-1, 10) {
				return fmt.Errorf("the id of the frame with chunk %d is %s", h.next-1, id)
			}
		}
		if line == "\n" {
			event, id, data = "", "", ""
		}
	}
}

// A reader that receives nothing is disconnected. It delays neither the writer nor another
// reader, and gets the whole message when it connects again with its last id.
func TestAReaderWhoTakesNothing(t *testing.T) {
	t.Cleanup(server.Impatient(0, 300*time.Millisecond))
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		s := speak(t, p)
		srv, cut := tight(t, p.Service)
		path := "/v1/messages/" + s.message + "/stream"
		slow, err := net.Dial("tcp", srv.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer slow.Close()
		_ = slow.(*net.TCPConn).SetReadBuffer(4096)
		fmt.Fprintf(slow, "GET %s HTTP/1.0\r\nHost: %s\r\n\r\n", path, srv.Listener.Addr())
		if _, err := io.ReadFull(slow, make([]byte, 15)); err != nil { // the answer has begun
			t.Fatal(err)
		}
		// follow comes back as often as it is cut off, which a busy machine does to
		// any reader in 300 ms, as long as that brings something.
		follow := func(h *hearing) error {
			for fruitless := 0; ; fruitless++ {
				had := h.next
				req, _ := http.NewRequestWithContext(t.Context(), "GET", srv.URL+path, nil)
				if had > 0 {
					req.Header.Set("Last-Event-ID", strconv.FormatInt(had-1, 10))
				}
				res, err := srv.Client().Do(req)
				if err != nil {
					return err
				}
				err = h.read(res.Body)
				res.Body.Close()
				if h.next > had {
					fruitless = 0
				}
				if err == nil || fruitless == 20 || !errors.Is(err, io.ErrUnexpectedEOF) {
					return err
				}
			}
		}
		fast := make(chan *hearing, 1)
		go func() {
			h := &hearing{}
			if err := follow(h); err != nil {
				t.Errorf("the other reader: %v", err)
			}
			fast <- h
		}()
		const chunks = 200
		for n := range int64(chunks) {
			if r := s.post("append", text(n, strings.Repeat("x", 50_000))); r.StatusCode != 200 {
				t.Fatal(r.text)
			}
		}
		cut(slow)
		had := &hearing{}
		if err := had.read(slow); had.next >= chunks {
			t.Errorf("the slow reader got %d chunks: %v", had.next, err)
		}
		s.post("finish", "")
		if h := <-fast; h.next != chunks || !h.ended {
			t.Errorf("the other reader got %d chunks", h.next)
		}
		back := &hearing{next: had.next}
		if err := follow(back); err != nil || back.next != chunks || !back.ended {
			t.Errorf("after he came back: up to %d, %v", back.next, err)
		}
	})
}
