package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/relay"
	"github.com/pawl-work/pawl/relay/webhook"
)

const (
	oldSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	newSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
)

func open(t *testing.T, o webhook.Options) relay.Sink {
	t.Helper()
	if o.Secrets == nil {
		o.Secrets = []string{oldSecret}
	}
	s, err := webhook.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func message(id string) relay.Message {
	return relay.Message{Event: pawl.Event{ID: id, TaskID: "tsk_" + id}, Body: []byte(`{"id":"` + id + `"}`)}
}

// send sends one message and returns the sink's result.
func send(t *testing.T, s relay.Sink) error {
	t.Helper()
	return s.Send(t.Context(), []relay.Message{message("evt_1")})[0]
}

// verified checks a signature by the specification, without the library.
func verified(r *http.Request, body []byte, secret string) bool {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "%s.%s.%s", r.Header.Get("webhook-id"), r.Header.Get("webhook-timestamp"), body)
	want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	for one := range strings.FieldsSeq(r.Header.Get("webhook-signature")) {
		if hmac.Equal([]byte(one), []byte(want)) {
			return true
		}
	}
	return false
}

// Every message is signed with every secret, so that receivers with the old secret and receivers
// with the new one accept it.
func TestMessagesAreSigned(t *testing.T) {
	bad := make(chan string, 100)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for _, secret := range []string{oldSecret, newSecret} {
			if !verified(r, body, secret) {
				bad <- "no signature with " + secret
			}
		}
		if verified(r, append(body, ' '), oldSecret) || verified(r, body, "whsec_"+base64.StdEncoding.EncodeToString(make([]byte, 32))) {
			bad <- "a signature that is good for anything"
		}
		if r.Method != "POST" || r.Header.Get("Content-Type") != "application/cloudevents+json" ||
			string(body) != `{"id":"`+r.Header.Get("webhook-id")+`"}` {
			bad <- fmt.Sprintf("%s %v %s", r.Method, r.Header, body)
		}
	}))
	defer srv.Close()
	s := open(t, webhook.Options{URL: srv.URL, Secrets: []string{newSecret, oldSecret}, AllowPrivate: true})
	for i, err := range s.Send(t.Context(), []relay.Message{message("evt_1"), message("evt_2"), message("evt_3")}) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	select {
	case what := <-bad:
		t.Error(what)
	default:
	}
}

// Every status other than 2xx is retried, after Retry-After if it is given. 410 disables the sink.
// Redirects are not followed.
func TestAnswers(t *testing.T) {
	var elsewhere atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer other.Close()
	for name, c := range map[string]struct {
		status int
		header http.Header
		ok     bool
		gone   bool
		after  time.Duration
	}{
		"ok":          {200, nil, true, false, 0},
		"no content":  {204, nil, true, false, 0},
		"error":       {500, nil, false, false, 0},
		"bad request": {400, nil, false, false, 0},
		"gone":        {410, nil, false, true, 0},
		"later":       {503, http.Header{"Retry-After": {"7"}}, false, false, 7 * time.Second},
		"much later":  {429, http.Header{"Retry-After": {"999999999999"}}, false, false, 0},
		"next year":   {429, http.Header{"Retry-After": {time.Now().AddDate(1, 0, 0).UTC().Format(http.TimeFormat)}}, false, false, time.Hour},
		"redirect":    {307, http.Header{"Location": {other.URL}}, false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				for k, v := range c.header {
					w.Header()[k] = v
				}
				w.WriteHeader(c.status)
				_, _ = io.CopyN(w, strings.NewReader(strings.Repeat("x", 1<<20)), 1<<20) // more than is read
			}))
			defer srv.Close()
			err := send(t, open(t, webhook.Options{URL: srv.URL, AllowPrivate: true}))
			retryable, after := pawl.RetryOf(err)
			if (err == nil) != c.ok || errors.Is(err, relay.ErrGone) != c.gone || !retryable {
				t.Errorf("%v, retryable %v", err, retryable)
			}
			if c.after > 0 && (after == nil || *after != c.after) {
				t.Errorf("%v: again after %v, want %v", err, after, c.after)
			}
			if elsewhere.Load() != 0 {
				t.Error("it was followed elsewhere")
			}
		})
	}
}

// A receiver without a public address is not reached, whatever its URL is: the address is checked
// when it is dialled.
func TestPrivateAddressesAreRefused(t *testing.T) {
	var reached atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer srv.Close()
	_, port, _ := net.SplitHostPort(srv.Listener.Addr().String())
	for _, host := range []string{
		"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "[::]", "127.1.2.3", "10.0.0.1", "172.16.0.1", "192.168.1.1",
		"169.254.169.254",
		"100.64.0.1", "192.0.0.8", "198.18.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "[fe80::1]", "[fc00::1]", "[fd00:ec2::254]",
		"[ff02::1]",
		"[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fec0::1]", "[2001:db8::1]", "[::ffff:10.0.0.1]",
	} {
		err := send(t, open(t, webhook.Options{URL: "http://" + host + ":" + port + "/", Timeout: 5 * time.Second}))
		if err == nil || !strings.Contains(err.Error(), "not a public address") {
			t.Errorf("%s: %v", host, err)
		}
	}
	t.Setenv("HTTP_PROXY", srv.URL) // a proxy would dial in our place
	if err := send(t, open(t, webhook.Options{URL: "http://10.0.0.1/", Timeout: 5 * time.Second})); err == nil {
		t.Error("it went through a proxy")
	}
	if n := reached.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// A request that hangs is cancelled, and a message that is too large is not sent.
func TestBounds(t *testing.T) {
	hang := make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}))
	defer srv.Close()
	defer close(hang)
	if err := send(t, open(t, webhook.Options{URL: srv.URL, AllowPrivate: true, Timeout: 50 * time.Millisecond})); err == nil {
		t.Error("it waited for what hangs")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	s := open(t, webhook.Options{URL: srv.URL, AllowPrivate: true, Concurrency: 1})
	for i, err := range s.Send(ctx, []relay.Message{message("evt_1"), message("evt_2"), message("evt_3")}) {
		if err == nil {
			t.Errorf("%d was sent", i)
		}
	}
	large := message("evt_1")
	large.Body = make([]byte, 2<<20)
	if err := s.Send(t.Context(), []relay.Message{large})[0]; err == nil || retryable(err) {
		t.Errorf("what is too large: %v", err)
	}
}

func retryable(err error) bool {
	ok, _ := pawl.RetryOf(err)
	return ok
}

// The URL may contain a secret: errors do not contain the URL.
func TestErrorsKeepTheAddress(t *testing.T) {
	err := send(t, open(t, webhook.Options{URL: "http://127.0.0.1:1/hook?token=hidden", AllowPrivate: true}))
	if err == nil || strings.Contains(err.Error(), "hidden") {
		t.Errorf("it says %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []webhook.Options{
		{URL: "ftp://example.com", Secrets: []string{oldSecret}},
		{URL: "https://", Secrets: []string{oldSecret}},
		{URL: "https://example.com"},
		{URL: "https://example.com", Secrets: []string{"secret"}},
		{URL: "https://example.com", Secrets: []string{"whsec_short"}},
		{URL: "https://example.com", Secrets: []string{oldSecret, "whsec_not base64 at all, but long enough to be one"}},
	} {
		if _, err := webhook.New(o); !errors.Is(err, pawl.ErrInvalid) {
			t.Errorf("%s: %v", o.URL, err)
		}
	}
}

// A receiver that accepts connections and does not answer delays a batch by one timeout, however
// many events are in it.
func TestSilentReceiver(t *testing.T) {
	t.Parallel()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the kernel accepts
	s := open(t, webhook.Options{URL: "http://" + l.Addr().String(), AllowPrivate: true, Timeout: time.Second})
	began := time.Now()
	for n, err := range s.Send(t.Context(), make([]relay.Message, webhook.Batch)) {
		if !retryable(err) {
			t.Errorf("%d: %v", n, err)
		}
	}
	if d := time.Since(began); d > 20*time.Second {
		t.Errorf("it took %v", d)
	}
}
