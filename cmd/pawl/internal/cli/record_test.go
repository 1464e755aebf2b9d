package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A checkpoint goes to another machine by https alone.
func TestCheckpointsAreNotSentInTheClear(t *testing.T) {
	for to, good := range map[string]bool{
		"": true, "checkpoint.txt": true, "https://witness.example/log": true, "http://127.0.0.1:9/log": true, "http://[::1]/log": true,
		"http://localhost:8080": true, "http://witness.example/log": false, "http://10.0.0.1/": false, "http://127.0.0.1.example/": false,
		"http://localhost@witness.example/": false,
	} {
		c := Defaults()
		c.Record.Send = to
		if err := c.check(); (err == nil) != good {
			t.Errorf("%q: %v", to, err)
		}
	}
}

// A redirect, which could become a GET without the checkpoint, and any other answer than
// success count as not sent. The error has no password of the URL.
func TestOnlyAnAnsweredCheckpointCountsAsSent(t *testing.T) {
	status, got := http.StatusOK, ""
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/elsewhere" {
			got += "redirected "
			return
		}
		body := make([]byte, 100)
		n, _ := r.Body.Read(body)
		got += r.Method + " " + string(body[:n]) + " "
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
	}))
	defer s.Close()
	send := recordConfig{Send: strings.Replace(s.URL, "http://", "http://user:secret@", 1)}.options().Send
	for _, x := range []struct {
		status int
		good   bool
	}{
		{http.StatusOK, true}, {http.StatusNoContent, true}, {http.StatusFound, false}, {http.StatusTemporaryRedirect, false},
		{http.StatusBadGateway, false},
	} {
		status, got = x.status, ""
		err := send(t.Context(), "note")
		if (err == nil) != x.good || got != "POST note " {
			t.Errorf("status %d: %v, the receiver got %q", x.status, err, got)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the error names the password: %v", err)
		}
	}
}
