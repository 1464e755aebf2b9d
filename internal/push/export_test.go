package push

import (
	"testing"
	"time"

	"github.com/pawl-work/pawl/relay/webhook"
)

// longer is the poster of a pusher's only target, without its short time-out.
func longer(t *testing.T, p *Pusher) *webhook.Poster {
	t.Helper()
	target := p.o.Targets[typ]
	out, err := webhook.NewPoster(webhook.Options{URL: target.URL, Secrets: []string{secret}, AllowPrivate: true, Timeout: time.Minute}, 1)
	if err != nil {
		t.Fatal(err)
	}
	return out
}
