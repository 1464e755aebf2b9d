package inbound_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/inbound"
	"github.com/pawl-work/pawl/internal/cost"
)

func source(t *testing.T, o inbound.Options) *inbound.Source {
	t.Helper()
	if o.Task == nil && o.Signal == nil {
		o.Task = &inbound.Task{Type: "hook"}
	}
	s, err := inbound.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func sign(secret, text string) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(text))
	return hex.EncodeToString(mac.Sum(nil))
}

// The vectors of the documentation of Standard Webhooks and GitHub. GitHub's and Slack's have
// bodies that are no JSON: their signatures are right, so the refusal is invalid.
func TestVectors(t *testing.T) {
	const standardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	for _, c := range []struct {
		name string
		o    inbound.Options
		h    http.Header
		body string
		at   int64
		code pawl.Code
		id   string
	}{
		{"standard", inbound.Options{Form: "standard", Secrets: []string{standardSecret}},
			headers("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp", "1614265330",
				"webhook-signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
			`{"test": 2432232314}`, 1614265330, "", "msg_p5jXN8AQM9LWM0D4loKWxJek"},
		{"github", inbound.Options{Form: "github", Secrets: []string{"It's a Secret to Everybody"}},
			headers("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
			"Hello, World!", 0, pawl.CodeInvalid, ""},
		{"slack", inbound.Options{Form: "slack", Secrets: []string{"8f742231b10e8888abcd99yyyzzz85a5"}},
			headers("X-Slack-Request-Timestamp", "1531420618",
				"X-Slack-Signature", "v0=a2114d57b48eac39b9ad189dd8316235a7b4a8d21a10bd27519666489c69b503"),
			"token=xyzz0WbapA4vBCDEFasx0q6G&team_id=T1DC2JH3J&team_domain=testteamnow&channel_id=G8PSS9T3V&channel_name=foobar&" +
				"user_id=U2CERLKJA&user_name=roadrunner&command=%2Fwebhook-collect&text=&response_url=https%3A%2F%2Fhooks.slack.com%2F" +
				"commands%2FT1DC2JH3J%2F397700885554%2F96rGlfmibIGlgcZRskXaIFfN&trigger_id=398738663015.47445629121.803a0bc887a14d10d2c447fce8b6703c",
			1531420618, pawl.CodeInvalid, ""},
		{"stripe", inbound.Options{Form: "stripe", Secrets: []string{"whsec_new", "whsec_old"}},
			headers("Stripe-Signature", "t=1492774577,v1="+sign("whsec_old", `1492774577.{"id":"evt_1"}`)+",v0=6ffbb59b"),
			`{"id":"evt_1"}`, 1492774577, "", "evt_1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := source(t, c.o)
			d, err := s.Verify(c.h, []byte(c.body), time.Unix(c.at+299, 0))
			if pawl.CodeOf(err) != c.code && !(c.code == "" && err == nil) || d.ID != c.id {
				t.Errorf("got %+v, %v", d, err)
			}
			unauthenticated := func(what string, h http.Header, body string, at int64) {
				if _, err := s.Verify(h, []byte(body), time.Unix(at, 0)); !errors.Is(err, pawl.ErrUnauthenticated) {
					t.Errorf("%s: %v", what, err)
				}
			}
			unauthenticated("another body", c.h, c.body+" ", c.at)
			unauthenticated("no headers", http.Header{}, c.body, c.at)
			if c.name != "github" {
				unauthenticated("late", c.h, c.body, c.at+301)
				unauthenticated("early", c.h, c.body, c.at-301)
			}
			o := c.o
			o.Secrets = []string{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}
			s = source(t, o)
			unauthenticated("another secret", c.h, c.body, c.at)
		})
	}
}

func TestWhatADeliveryBecomes(t *testing.T) {
	const body = `{"event_id":"Ev1","order":{"id":7,"a/b":["x","y"]}}`
	verify := func(s *inbound.Source, body string) inbound.Delivery {
		t.Helper()
		d, err := s.Verify(headers("X-Slack-Request-Timestamp", "100", "X-Slack-Signature", "v0="+sign("s", "v0:100:"+body)),
			[]byte(body), time.Unix(100, 0))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	slack := inbound.Options{Form: "slack", Secrets: []string{"s"}}
	for pointer, want := range map[string]string{"/order/id": "7", "/order/a~1b/1": "y", "/order/a~1b/2": "", "/nothing/there": "",
		"/order": "", "fixed": "fixed", "": "", "/": ""} {
		o := slack
		o.Signal = &inbound.Signal{Name: "paid", Key: pointer, Payload: "/order"}
		s := source(t, o)
		if got := s.Signal(verify(s, body)); got.Key != want || got.Name != "paid" || string(got.Payload) != `{"id":7,"a/b":["x","y"]}` {
			t.Errorf("%s: %+v", pointer, got)
		}
	}
	s := source(t, slack)
	if d := verify(s, body); d.ID != "Ev1" {
		t.Errorf("its id is %s", d.ID)
	}
	if d := verify(s, `{"type":"url_verification","challenge":"3eZb"}`); d.Challenge != "3eZb" {
		t.Errorf("challenge: %+v", d)
	}
	hash := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte("\n"+body)))
	for id, want := range map[string]string{"/order/id": "7", "body": hash, "header:x-slack-request-timestamp": "100", "header:X-None": hash,
		"/none": hash} {
		o := slack
		o.ID = id
		if d := verify(source(t, o), body); d.ID != want {
			t.Errorf("%s: its id is %s", id, d.ID)
		}
	}
	for _, id := range []string{"header:", "header:a b", "header:é", "Header:x"} {
		o := slack
		o.ID, o.Task = id, &inbound.Task{Type: "t"}
		if _, err := inbound.New(o); pawl.CodeOf(err) != pawl.CodeInvalid {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestDefinitionsAreChecked(t *testing.T) {
	task := &inbound.Task{Type: "t"}
	for pointer, o := range map[string]inbound.Options{
		"/form":              {Form: "other", Secrets: []string{"s"}, Task: task},
		"/secret":            {Form: "standard", Secrets: []string{"s3cret-that-is-not-base64"}, Task: task},
		"/task":              {Form: "github", Secrets: []string{"s"}},
		"/task/type":         {Form: "github", Secrets: []string{"s"}, Task: &inbound.Task{}},
		"/task/payload":      {Form: "github", Secrets: []string{"s"}, Task: &inbound.Task{Type: "t", Payload: "x"}},
		"/signal/name":       {Form: "github", Secrets: []string{"s"}, Signal: &inbound.Signal{}},
		"/signal/key":        {Form: "github", Secrets: []string{"s"}, Signal: &inbound.Signal{Name: "n", Key: "/~2"}},
		"/id":                {Form: "github", Secrets: []string{"s"}, Task: task, ID: "x"},
		"/tolerance_seconds": {Form: "github", Secrets: []string{"s"}, Task: task, Tolerance: -1},
	} {
		_, err := inbound.New(o)
		var e *pawl.Error
		if !errors.As(err, &e) || len(e.Fields) != 1 || e.Fields[0].Pointer != pointer {
			t.Errorf("%s: %v", pointer, err)
		}
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("t=1,v1=00", "1", []byte(`{}`))
	f.Add("v0=00", "x", []byte("null"))
	f.Fuzz(func(t *testing.T, signature, at string, body []byte) {
		h := http.Header{"Stripe-Signature": {signature}, "X-Slack-Signature": {signature}, "X-Slack-Request-Timestamp": {at},
			"X-Hub-Signature-256": {signature}, "Webhook-Signature": {signature}, "Webhook-Timestamp": {at}, "Webhook-Id": {at}}
		for _, form := range inbound.Forms {
			s := source(t, inbound.Options{Form: form, Secrets: []string{"whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}})
			cost.Check(t, len(signature)+len(at)+len(body), func() {
				if _, err := s.Verify(h, body, time.Unix(1, 0)); err == nil {
					t.Errorf("%s: a signature without the secret", form)
				}
			})
		}
	})
}
