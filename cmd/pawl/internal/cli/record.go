package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/durable"
	"github.com/pawl-work/pawl/translog"
)

// sendTimeout bounds one delivery of a checkpoint.
const sendTimeout = 10 * time.Second

// check refuses an address that sends checkpoints in the clear to another machine: they
// could be replaced on the way.
func (c recordConfig) check() error {
	for _, text := range c.Witnesses {
		key, address, _ := strings.Cut(text, "=")
		if _, err := translog.NewWitness(key, address); err != nil {
			return Invalid("record.witnesses, each as KEY=URL: %v", err)
		}
	}
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

// WitnessFlags adds the flags that say which witnesses must have cosigned a checkpoint.
func WitnessFlags(cmd *cobra.Command, trust *translog.Trust) {
	cmd.Flags().StringArrayVar(&trust.Witnesses, "witness", nil,
		"public keys of witnesses, one a line, that must have cosigned the checkpoint; may be repeated")
	cmd.Flags().IntVar(&trust.Quorum, "quorum", 0, "how many of the witnesses must have cosigned (default: all)")
}

func (c recordConfig) options() engine.LogOptions {
	o := engine.LogOptions{Key: c.Key}
	for _, text := range c.Witnesses {
		key, address, _ := strings.Cut(text, "=")
		o.Witnesses = append(o.Witnesses, engine.LogWitness{Key: key, URL: address})
	}
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
