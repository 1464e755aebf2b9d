package pawl_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

// Only an error that no request can have caused on the other side says that an effect was not sent.
func TestNotSentSaysOnlyWhatIsKnown(t *testing.T) {
	closes := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer closes.Close()
	_, answered := http.Post(closes.URL, "text/plain", strings.NewReader("x"))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	away := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	_, refused := http.Post("http://"+away, "text/plain", strings.NewReader("x"))
	for _, c := range []struct {
		err  error
		sent bool
	}{
		{refused, false},
		{fmt.Errorf("exec: %w", driver.ErrBadConn), false},
		{answered, true},
		{sql.ErrTxDone, true}, // after a commit without an answer too
		{io.ErrUnexpectedEOF, true},
		{context.DeadlineExceeded, true},
	} {
		if got := pawl.NotSent(c.err); c.err == nil || !errors.Is(got, c.err) || (got == c.err) != c.sent {
			t.Errorf("%v: sent %t, want %t", c.err, got == c.err, c.sent)
		}
	}
	if pawl.NotSent(nil) != nil {
		t.Error("no error became one")
	}
}
