package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/agent"
)

func TestFailuresOfModelsSayWhetherTheyPass(t *testing.T) {
	broke := errors.New("broke")
	for status, want := range map[int]struct {
		retried bool
		after   time.Duration
	}{
		0: {true, time.Second}, 400: {}, 401: {}, 404: {}, 408: {true, time.Second}, 409: {true, time.Second},
		429: {true, 7 * time.Second}, 500: {true, time.Second}, 529: {true, time.Second},
	} {
		var res *http.Response
		if status != 0 {
			res = &http.Response{StatusCode: status, Header: http.Header{}}
		}
		if status == http.StatusTooManyRequests {
			res.Header.Set("Retry-After", "7")
		}
		err := agent.ClassifyError(t.Context(), broke, res)
		retried, after := pawl.RetryOf(err)
		if retried != want.retried || retried && (after == nil || *after != want.after) || !errors.Is(err, broke) {
			t.Errorf("%d: retried %t after %v: %v", status, retried, after, err)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := agent.ClassifyError(ended, broke, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of its context: %v", err)
	}
}

func TestWhatAToolAnsweredIsTold(t *testing.T) {
	for output, want := range map[string]string{`"so \"it\" is"`: `so "it" is`, `{"a":[1]}`: `{"a":[1]}`, `7`: `7`} {
		if got := agent.OutputText(json.RawMessage(output)); got != want {
			t.Errorf("%s is told as %s", output, got)
		}
	}
}
