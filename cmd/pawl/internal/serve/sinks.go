package serve

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/relay"
	"github.com/pawl-work/pawl/relay/nats"
	"github.com/pawl-work/pawl/relay/rabbitmq"
	"github.com/pawl-work/pawl/relay/webhook"
)

// outs returns the configured sinks.
func outs(c cli.RelayConfig) ([]relay.SinkOptions, error) {
	secrets := map[string][]string{}
	for _, s := range c.Secrets {
		name, secret, found := strings.Cut(s, "=")
		if !found {
			return nil, cli.Invalid("a relay's secret must be NAME=whsec_…")
		}
		secrets[name] = append(secrets[name], secret)
	}
	var outs []relay.SinkOptions
	for _, s := range c.Sinks {
		name, place, found := strings.Cut(s, "=")
		if !found {
			return nil, cli.Invalid("a relay must be NAME=URL, for example bus=amqp://localhost")
		}
		if err := relay.Check(name); err != nil {
			return nil, err
		}
		if slices.ContainsFunc(outs, func(o relay.SinkOptions) bool { return o.Name == name }) {
			return nil, cli.Invalid("two relays have the name %s", name)
		}
		out, err := makeOut(name, place, secrets[name])
		if err != nil {
			return nil, cli.Invalid("relay %s: %v", name, err)
		}
		delete(secrets, name)
		outs = append(outs, out)
	}
	for name := range secrets {
		return nil, cli.Invalid("relay.secrets has a secret for the relay %s, but there is no such relay", name)
	}
	return outs, nil
}

// makeOut returns the sink of a URL, by its scheme.
func makeOut(name, place string, secrets []string) (relay.SinkOptions, error) {
	place, rest, _ := strings.Cut(place, "#")
	told, err := url.ParseQuery(rest)
	if err != nil {
		return relay.SinkOptions{}, fmt.Errorf("the text after # must be a query, for example exchange=x&existing")
	}
	p := &params{told: told}
	out := relay.SinkOptions{Name: name, Namespaces: p.words("namespaces"), Types: p.words("types"), Events: p.words("events")}
	scheme, _, _ := strings.Cut(place, ":")
	if len(secrets) > 0 && scheme != "http" && scheme != "https" {
		return out, fmt.Errorf("only webhooks have secrets")
	}
	switch scheme {
	case "amqp", "amqps":
		await := p.flag("await") || !p.told.Has("await")
		o := rabbitmq.Options{URL: place, Exchange: p.word("exchange"), Existing: p.flag("existing"), RefuseUnroutable: !await}
		if err := p.refused(); err != nil {
			return out, err
		}
		out.Kind = rabbitmq.Kind
		out.Sink, err = rabbitmq.New(o)
	case "nats", "tls":
		o := nats.Options{URL: place, Stream: p.word("stream"), Prefix: p.word("prefix")}
		if err := p.refused(); err != nil {
			return out, err
		}
		out.Kind = nats.Kind
		out.Sink, err = nats.New(o)
	case "http", "https":
		o := webhook.Options{URL: place, Secrets: secrets, AllowPrivate: p.flag("allow_private"), Timeout: p.duration("timeout", 0)}
		out.Kind, out.Batch, out.MaxTries, out.DisableAfter = webhook.Kind, webhook.Batch, webhook.MaxTries, p.duration(
			"disable_after",
			webhook.DisableAfter,
		)
		if err := p.refused(); err != nil {
			return out, err
		}
		out.Sink, err = webhook.New(o)
	default:
		err = fmt.Errorf("its URL must begin with amqp, amqps, nats, tls, http or https")
	}
	return out, err
}

// params are the parameters after the #: each known, given once, and of the right type.
type params struct {
	told  url.Values
	known []string
	bad   error
}

func (p *params) word(name string) string {
	p.known = append(p.known, name)
	if len(p.told[name]) > 1 {
		p.bad = fmt.Errorf("%s is given twice", name)
	}
	return p.told.Get(name)
}

func (p *params) words(name string) []string {
	return strings.FieldsFunc(p.word(name), func(c rune) bool { return c == ',' })
}

// flag reports whether a parameter is set, without a value or to true.
func (p *params) flag(name string) bool {
	text := p.word(name)
	if text != "" && text != "true" && text != "false" {
		p.bad = fmt.Errorf("%s must be true or false", name)
	}
	return p.told.Has(name) && text != "false"
}

func (p *params) duration(name string, unless time.Duration) time.Duration {
	text := p.word(name)
	if text == "" {
		return unless
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		p.bad = fmt.Errorf("%s must be a duration, for example 15s", name)
	}
	return d
}

// refused returns the first error, or an unknown parameter's.
func (p *params) refused() error {
	for name := range p.told {
		if !slices.Contains(p.known, name) {
			return fmt.Errorf("%q is not known; the options are %s", name, strings.Join(p.known, ", "))
		}
	}
	return p.bad
}

// relays delivers events until ctx ends.
func relays(ctx context.Context, e *engine.Engine, outs []relay.SinkOptions, origin string, log *slog.Logger) error {
	host, _ := os.Hostname()
	return relay.Run(ctx, relay.Options{
		Source: e.Feed(), States: e, Sinks: outs, Origin: origin, Log: log,
		Holder: fmt.Sprintf("%s/%d/%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6])),
	})
}
