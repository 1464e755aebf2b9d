package agent

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/pawl-work/pawl"
)

// retryDelay is the delay before another attempt requests an interrupted turn again.
const retryDelay = time.Second

// ErrInterrupted is returned by a Model whose stream ended before its turn was complete.
var ErrInterrupted = pawl.RetryAfter(retryDelay, errors.New("agent: the model's stream broke off"))

// ClassifyError marks the error of a Model as temporary or permanent. Without a response
// (res is nil), and for status 408, 409, 429 and 5xx, the turn is retried after the time
// in Retry-After, at least a second. Other statuses are permanent. If ctx has ended,
// ClassifyError returns ctx.Err().
func ClassifyError(ctx context.Context, err error, res *http.Response) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case res == nil:
		return pawl.RetryAfter(retryDelay, err)
	case res.StatusCode >= 500,
		res.StatusCode == http.StatusTooManyRequests,
		res.StatusCode == http.StatusRequestTimeout,
		res.StatusCode == http.StatusConflict:
		after := retryDelay
		if s, bad := strconv.Atoi(res.Header.Get("Retry-After")); bad == nil {
			after = max(after, time.Duration(s)*time.Second)
		}
		return pawl.RetryAfter(after, err)
	}
	return pawl.Permanent(err)
}

// OutputText is the output of a tool as text for a Model: the content of a JSON string,
// or any other value as JSON.
func OutputText(output json.RawMessage) string {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	return string(output)
}
