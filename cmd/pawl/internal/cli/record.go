package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/durable"
)

// sendTimeout bounds one delivery of a checkpoint.
const sendTimeout = 10 * time.Second

// check refuses an address that sends checkpoints in the clear to another machine: they
// could be replaced on the way.
func (c recordConfig) check() error {
	if !strings.HasPrefix(c.Send, "http://") {
		return nil
	}
	to, err := url.Parse(c.Send)
	if err != nil {
		return Invalid("record.send is not a URL")
	}
	ip := net.ParseIP(to.Hostname())
	if to.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return Invalid("record.send must be an https URL or a file; http is for this machine alone")
	}
	return nil
}

func (c recordConfig) options() engine.LogOptions {
	o := engine.LogOptions{Key: c.Key}
	switch {
	case c.Send == "":
	case strings.HasPrefix(c.Send, "http://") || strings.HasPrefix(c.Send, "https://"):
		o.Send = func(ctx context.Context, note string) error { return post(ctx, c.Send, note) }
	default:
		o.Send = func(_ context.Context, note string) error { return durable.Replace(c.Send, note) }
	}
	return o
}

// post sends a checkpoint to a URL. Its errors do not name the URL, which may contain a
// password.
func post(ctx context.Context, to, note string) error {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, strings.NewReader(note))
	if err != nil {
		return fmt.Errorf("record.send is not a URL")
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	// A redirect can become a GET without the checkpoint.
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("the receiver of checkpoints does not answer")
	}
	defer res.Body.Close()
	if res.StatusCode/100 != 2 {
		return fmt.Errorf("the receiver of checkpoints answered with status %d", res.StatusCode)
	}
	return nil
}
