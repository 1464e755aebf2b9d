package dashboard

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawl-work/pawl"
)

func TestSessionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(nil, time.Hour, 12*time.Hour)
		is := func(value, key, when string) {
			t.Helper()
			got, err := s.open(value)
			if got.Key != key || (key == "") != (pawl.CodeOf(err) == pawl.CodeUnauthenticated) {
				t.Errorf("%s: %+v, %v", when, got, err)
			}
		}
		idle := s.seal(s.begin("pawl_key"))
		time.Sleep(59 * time.Minute)
		is(idle, "pawl_key", "after 59 minutes")
		time.Sleep(time.Minute)
		is(idle, "", "after an idle hour")

		used := s.begin("pawl_key")
		if _, due := s.renew(used); due {
			t.Error("a new session is renewed")
		}
		for range 23 {
			time.Sleep(30 * time.Minute)
			var due bool
			if used, due = s.renew(used); !due {
				t.Fatal("a session in use is not renewed")
			}
			is(s.seal(used), "pawl_key", "in use")
		}
		time.Sleep(30 * time.Minute)
		is(s.seal(used), "", "in use for 12 hours")

		left := s.begin("pawl_key")
		s.end(left)
		is(s.seal(left), "", "after a logout")
		time.Sleep(13 * time.Hour)
		s.end(s.begin("other"))
		if len(s.ended) != 1 {
			t.Errorf("%d sessions are remembered", len(s.ended))
		}
	})
}

func TestSessionsAreSealed(t *testing.T) {
	secret := bytes.Repeat([]byte{7}, 32)
	a, b := newSessions(secret, time.Hour, time.Hour), newSessions(secret, time.Hour, time.Hour)
	value := a.seal(a.begin("pawl_key"))
	if got, err := b.open(value); err != nil || got.Key != "pawl_key" {
		t.Errorf("a server with the same secret: %+v, %v", got, err)
	}
	forged := []byte(value)
	forged[len(forged)/2] ^= 1
	for _, bad := range []string{"", "pawl_key", value[1:], value[:len(value)-4], string(forged),
		newSessions(nil, time.Hour, time.Hour).seal(a.begin("x"))} {
		if got, err := a.open(bad); got != (session{}) || err != nil {
			t.Errorf("%q: %+v, %v", bad, got, err)
		}
	}
}

func TestOwnPage(t *testing.T) {
	for next, want := range map[string]string{
		"/ui/": "/ui/", "/ui/tasks?state=failed&type=a%20b": "/ui/tasks?state=failed&type=a%20b", "/ui/tasks/tsk_1/": "/ui/tasks/tsk_1/",
		`/ui/../../\\evil.example`: "/ui/", "/ui/../..//evil.example": "/ui/", "/ui/%2e%2e/%2e%2e/x": "/ui/", `/ui/\evil`: "/ui/",
		"/ui/%5Cevil":        "/ui/",
		"//evil.example/ui/": "/ui/", "https://evil.example/ui/": "/ui/", "/ui//evil": "/ui/", "/uix": "/ui/", "": "/ui/", "/ui/\x00": "/ui/",
	} {
		if got := safeNext(next); got != want {
			t.Errorf("%q leads to %q, not %q", next, got, want)
		}
	}
}
