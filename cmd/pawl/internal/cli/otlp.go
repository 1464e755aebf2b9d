package cli

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// collector sends spans by OTLP over HTTP. It is an otlptrace.Client; otlptracehttp has one too,
// which links gRPC.
type collector struct {
	url     string
	headers map[string]string
	gzip    bool
	http    http.Client
	pause   time.Duration // before the first repetition
}

const (
	exportTime   = 10 * time.Second // of a request
	exportRetry  = 30 * time.Second // how long a batch is sent again
	firstPause   = time.Second
	longestPause = 10 * time.Second
	maxSaid      = 64 << 10 // bytes that are read of what a collector answers
)

// newCollector reads the variables of OpenTelemetry. Those for traces alone come before those for
// all signals, and a given address before both.
func newCollector(getenv func(string) string, given string) (*collector, error) {
	value := func(name string) string {
		return cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_"+name), getenv("OTEL_EXPORTER_OTLP_"+name))
	}
	c := &collector{gzip: value("COMPRESSION") == "gzip", headers: map[string]string{}, pause: firstPause}
	at, err := collectorURL(getenv, given)
	if err != nil {
		return nil, err
	}
	c.url = at.String()
	for pair := range strings.SplitSeq(value("HEADERS"), ",") {
		if pair = strings.TrimSpace(pair); pair == "" {
			continue
		}
		name, text, _ := strings.Cut(pair, "=")
		if text, err = url.PathUnescape(strings.TrimSpace(text)); err != nil || strings.TrimSpace(name) == "" {
			return nil, Invalid("OTEL_EXPORTER_OTLP_HEADERS must be as in name=value,name=value")
		}
		c.headers[strings.TrimSpace(name)] = text
	}
	c.http.Timeout = exportTime
	if text := value("TIMEOUT"); text != "" {
		ms, err := strconv.Atoi(text)
		if err != nil || ms <= 0 {
			return nil, Invalid("OTEL_EXPORTER_OTLP_TIMEOUT must be a number of milliseconds, from 1")
		}
		c.http.Timeout = time.Duration(ms) * time.Millisecond
	}
	secure, err := collectorTLS(value("CERTIFICATE"), value("CLIENT_CERTIFICATE"), value("CLIENT_KEY"))
	if err != nil {
		return nil, err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = secure
	c.http.Transport = transport
	return c, nil
}

// collectorURL returns where spans are sent.
func collectorURL(getenv func(string) string, given string) (*url.URL, error) {
	name, text := "trace.endpoint", given
	if text == "" {
		name = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
		text = getenv(name)
	}
	whole := text != ""
	if !whole {
		name = "OTEL_EXPORTER_OTLP_ENDPOINT"
		text = getenv(name)
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, Invalid("%s must be off, or an http address such as http://127.0.0.1:4318", name)
	}
	if !whole || given != "" && strings.Trim(u.Path, "/") == "" {
		u.Path = path.Join("/", u.Path, "v1/traces")
	}
	return u, nil
}

// collectorTLS reads the certificates of files.
func collectorTLS(authority, certificate, key string) (*tls.Config, error) {
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if authority != "" {
		text, err := os.ReadFile(authority)
		c.RootCAs = x509.NewCertPool()
		if err != nil || !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, Invalid("OTEL_EXPORTER_OTLP_CERTIFICATE is no file with certificates in PEM: %s", authority)
		}
	}
	if certificate != "" {
		pair, err := tls.LoadX509KeyPair(certificate, key)
		if err != nil {
			return nil, Invalid("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %v", err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// Start does nothing: the first batch makes the connection.
func (c *collector) Start(context.Context) error { return nil }

// Stop closes idle connections.
func (c *collector) Stop(context.Context) error {
	c.http.CloseIdleConnections()
	return nil
}

// UploadTraces sends a batch of spans, again while the collector says that it cannot take them now.
func (c *collector) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // in OTLP the request has the form of TracesData
	if err != nil {
		return err
	}
	if c.gzip {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(body) // into memory
		_ = w.Close()
		body = b.Bytes()
	}
	ctx, cancel := context.WithTimeout(ctx, exportRetry)
	defer cancel()
	for pause := c.pause; ; pause = min(2*pause, longestPause) {
		again, err := c.send(ctx, body)
		if err == nil || again < 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(max(again, pause)):
		}
	}
}

// send sends a batch once. again is the least time after which it may be sent again; -1 = never.
func (c *collector) send(ctx context.Context, body []byte) (again time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return -1, err
	}
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	if c.gzip {
		r.Header.Set("Content-Encoding", "gzip")
	}
	answer, err := c.http.Do(r)
	if err != nil {
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return 0, err
		}
		return -1, err
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(io.LimitReader(answer.Body, maxSaid))
	switch answer.StatusCode {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")) // none = 0
		return time.Duration(seconds) * time.Second, fmt.Errorf("%s: %s", answer.Status, said)
	}
	if answer.StatusCode/100 != 2 {
		return -1, fmt.Errorf("%s: %s", answer.Status, said)
	}
	if err == nil && answer.Header.Get("Content-Type") == "application/x-protobuf" {
		err = refusedSpans(said)
	}
	return -1, err
}

// refusedSpans returns an error if a collector answers that it did not take all spans of a batch. It reads
// ExportTraceServiceResponse, whose only member is ExportTracePartialSuccess: how many, and why.
func refusedSpans(answer []byte) error {
	_, _, n := protowire.ConsumeTag(answer)
	if n < 0 {
		return nil
	}
	partial, _ := protowire.ConsumeBytes(answer[n:])
	count, why := uint64(0), ""
	for len(partial) > 0 {
		field, kind, n := protowire.ConsumeTag(partial)
		if n < 0 {
			break
		}
		size := protowire.ConsumeFieldValue(field, kind, partial[n:])
		if size < 0 {
			break
		}
		switch value := partial[n : n+size]; {
		case field == 1 && kind == protowire.VarintType:
			count, _ = protowire.ConsumeVarint(value)
		case field == 2 && kind == protowire.BytesType:
			why, _ = protowire.ConsumeString(value)
		}
		partial = partial[n+size:]
	}
	if count == 0 && why == "" {
		return nil
	}
	return fmt.Errorf("%d spans were refused: %s", count, why)
}
