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

// later is when a turn that broke off is asked for again, by another attempt.
const later = time.Second

// ErrCut is for a Model whose stream ended before its turn did.
var ErrCut = pawl.RetryAfter(later, errors.New("agent: the model's stream broke off"))

// Failed says of a Model's error whether it passes: its server is busy or away,
// and is asked again when it says or a second later, or it will never take the
// request. res is the server's answer; nil = there was none.
func Failed(ctx context.Context, err error, res *http.Response) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case res == nil:
		return pawl.RetryAfter(later, err)
	case res.StatusCode >= 500,
		res.StatusCode == http.StatusTooManyRequests,
		res.StatusCode == http.StatusRequestTimeout,
		res.StatusCode == http.StatusConflict:
		after := later
		if s, bad := strconv.Atoi(res.Header.Get("Retry-After")); bad == nil {
			after = max(after, time.Duration(s)*time.Second)
		}
		return pawl.RetryAfter(after, err)
	}
	return pawl.Permanent(err)
}

// Told is what a tool answered, for a Model that is told it as text: a JSON string
// as what it says, all else as JSON.
func Told(output json.RawMessage) string {
	var text string
	if json.Unmarshal(output, &text) == nil {
		return text
	}
	return string(output)
}
