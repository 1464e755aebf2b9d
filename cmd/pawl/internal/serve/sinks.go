package serve

import (
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/nearest"
	"github.com/pawl-work/pawl/relay"
	"github.com/pawl-work/pawl/relay/nats"
	"github.com/pawl-work/pawl/relay/rabbitmq"
	"github.com/pawl-work/pawl/relay/webhook"
)

// parseSinks returns the configured sinks.
func parseSinks(c cli.RelayConfig) ([]relay.SinkOptions, error) {
	secrets := map[string][]string{}
	for _, s := range c.Secrets {
		name, secret, found := strings.Cut(s, "=")
		if !found {
			return nil, cli.Invalid("a sink's secret must be NAME=whsec_…")
		}
		secrets[name] = append(secrets[name], secret)
	}
	var sinks []relay.SinkOptions
	var names []string
	for _, s := range c.Sinks {
		name, address, found := strings.Cut(s, "=")
		if !found {
			return nil, cli.Invalid("a sink must be NAME=URL, for example bus=amqp://localhost")
		}
		if err := relay.Check(name); err != nil {
			return nil, err
		}
		if slices.Contains(names, name) {
			return nil, cli.Invalid("two sinks have the name %s", name)
		}
		out, err := parseSink(name, address, secrets[name])
		if err != nil {
			return nil, cli.Invalid("sink %s: %v", name, err)
		}
		delete(secrets, name)
		sinks, names = append(sinks, out), append(names, name)
	}
	for name := range secrets {
		return nil, cli.Invalid("relay.secrets has a secret for the sink %s, but there is no such sink%s", name, nearest.Question(name, names))
	}
	return sinks, nil
}

// parseSink returns the sink of a URL, by its scheme.
func parseSink(name, address string, secrets []string) (relay.SinkOptions, error) {
	address, rest, _ := strings.Cut(address, "#")
	values, err := url.ParseQuery(rest)
	if err != nil {
		return relay.SinkOptions{}, fmt.Errorf("the text after # must be a query, for example exchange=x&existing")
	}
	p := &params{values: values}
	sink := relay.SinkOptions{Name: name, Namespaces: p.list("namespaces"), Types: p.list("types"), Events: p.list("events")}
	if err := relay.CheckEvents(sink.Events); err != nil {
		return sink, err
	}
	scheme, _, _ := strings.Cut(address, ":")
	if len(secrets) > 0 && scheme != "http" && scheme != "https" {
		return sink, fmt.Errorf("only webhooks have secrets")
	}
	switch scheme {
	case "amqp", "amqps":
		await := p.flag("await") || !p.values.Has("await")
		o := rabbitmq.Options{URL: address, Exchange: p.text("exchange"), Existing: p.flag("existing"), RefuseUnroutable: !await}
		if err := p.err(); err != nil {
			return sink, err
		}
		sink.Kind = rabbitmq.Kind
		sink.Sink, err = rabbitmq.New(o)
	case "nats", "tls":
		o := nats.Options{URL: address, Stream: p.text("stream"), Prefix: p.text("prefix")}
		if err := p.err(); err != nil {
			return sink, err
		}
		sink.Kind = nats.Kind
		sink.Sink, err = nats.New(o)
	case "http", "https":
		o := webhook.Options{URL: address, Secrets: secrets, AllowPrivate: p.flag("allow_private"), Timeout: p.duration("timeout", 0)}
		sink.Kind, sink.Batch, sink.MaxTries, sink.DisableAfter = webhook.Kind, webhook.Batch, webhook.MaxTries, p.duration(
			"disable_after",
			webhook.DisableAfter,
		)
		if err := p.err(); err != nil {
			return sink, err
		}
		sink.Sink, err = webhook.New(o)
	default:
		err = fmt.Errorf("its URL must begin with amqp, amqps, nats, tls, http or https")
	}
	return sink, err
}

// params are the parameters after the #: each known, given once, and of the right type.
type params struct {
	values url.Values
	known  []string
	bad    error
}

func (p *params) text(name string) string {
	p.known = append(p.known, name)
	if len(p.values[name]) > 1 {
		p.bad = fmt.Errorf("%s is given twice", name)
	}
	return p.values.Get(name)
}

func (p *params) list(name string) []string {
	return strings.FieldsFunc(p.text(name), func(c rune) bool { return c == ',' })
}

// flag reports whether a parameter is set, without a value or to true.
func (p *params) flag(name string) bool {
	text := p.text(name)
	if text != "" && text != "true" && text != "false" {
		p.bad = fmt.Errorf("%s must be true or false", name)
	}
	return p.values.Has(name) && text != "false"
}

func (p *params) duration(name string, fallback time.Duration) time.Duration {
	text := p.text(name)
	if text == "" {
		return fallback
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		p.bad = fmt.Errorf("%s must be a duration, for example 15s", name)
	}
	return d
}

// err returns the first error, or an unknown parameter's.
func (p *params) err() error {
	for name := range p.values {
		if !slices.Contains(p.known, name) {
			return fmt.Errorf("%q is not known%s; the options are %s", name, nearest.Question(name, p.known), strings.Join(p.known, ", "))
		}
	}
	return p.bad
}

// relayOptions are the options of the relays. Each call makes up a holder of its own.
func relayOptions(a *cli.App, e *engine.Engine, sinks []relay.SinkOptions) relay.Options {
	host, _ := os.Hostname()
	return relay.Options{
		Source: e.Feed(), States: e, Sinks: sinks, Origin: a.Config.Relay.Origin, Log: a.Log(), TracerProvider: a.Traces,
		Holder: fmt.Sprintf("%s/%d/%s", host, os.Getpid(), strings.ToLower(rand.Text()[:6])),
	}
}
