package cli

import (
	"compress/gzip"
	"context"
	"encoding/pem"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// batch is a request that a collector got.
type batch struct {
	path   string
	header http.Header
	spans  []*tracepb.ResourceSpans
}

// collect starts a collector whose answers are given, and sends one batch to it with these variables.
func collect(t *testing.T, vars map[string]string, given string, answers ...http.HandlerFunc) (got []batch, err error) {
	t.Helper()
	return collectFrom(t, httptest.NewServer, vars, given, answers...)
}

func collectFrom(t *testing.T, start func(http.Handler) *httptest.Server, vars map[string]string, given string,
	answers ...http.HandlerFunc) (got []batch, err error) {
	t.Helper()
	srv := start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body := io.Reader(r.Body)
		if r.Header.Get("Content-Encoding") == "gzip" {
			if body, err = gzip.NewReader(r.Body); err != nil {
				t.Error(err)
				return
			}
		}
		text, _ := io.ReadAll(body)
		var sent tracepb.TracesData
		if err := proto.Unmarshal(text, &sent); err != nil {
			t.Error(err)
		}
		got = append(got, batch{r.URL.Path, r.Header, sent.ResourceSpans})
		if n := len(got) - 1; n < len(answers) {
			answers[n](w, r)
		}
	}))
	defer srv.Close()
	if srv.TLS != nil {
		file := filepath.Join(t.TempDir(), "ca.pem")
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw})
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		vars["OTEL_EXPORTER_OTLP_CERTIFICATE"] = file
	}
	c, err := newCollector(func(name string) string { return strings.ReplaceAll(vars[name], "HERE", srv.URL) },
		strings.ReplaceAll(given, "HERE", srv.URL))
	if err != nil {
		t.Fatal(err)
	}
	c.pause = time.Millisecond
	err = c.UploadTraces(context.Background(), []*tracepb.ResourceSpans{{SchemaUrl: "this"}})
	return got, err
}

const (
	endpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	tracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
)

func TestWhereSpansAreSent(t *testing.T) {
	for _, c := range []struct {
		base, traces, given, path string
	}{
		{base: "HERE", path: "/v1/traces"},
		{base: "HERE/otel/", path: "/otel/v1/traces"},
		{base: "HERE/otel", traces: "HERE/x", path: "/x"},
		{traces: "HERE", path: "/"},
		{traces: "HERE/x", given: "HERE", path: "/v1/traces"},
		{traces: "HERE/x", given: "HERE/y", path: "/y"},
	} {
		got, err := collect(t, map[string]string{endpoint: c.base, tracesEndpoint: c.traces}, c.given)
		if err != nil || len(got) != 1 || got[0].path != c.path || got[0].spans[0].SchemaUrl != "this" {
			t.Errorf("%+v: got %+v, %v", c, got, err)
		}
	}
}

func TestVariablesOfTheCollector(t *testing.T) {
	got, err := collectFrom(t, httptest.NewTLSServer, map[string]string{
		endpoint:                                "HERE",
		"OTEL_EXPORTER_OTLP_HEADERS":            "api-key=none",
		"OTEL_EXPORTER_OTLP_TRACES_HEADERS":     "api-key=a%20b, x = y",
		"OTEL_EXPORTER_OTLP_TRACES_COMPRESSION": "gzip",
		"OTEL_EXPORTER_OTLP_TIMEOUT":            "60000",
	}, "")
	if err != nil || len(got) != 1 {
		t.Fatalf("got %v, %v", got, err)
	}
	if h := got[0].header; h.Get("api-key") != "a b" || h.Get("x") != "y" || h.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("the headers are %v", h)
	}
	for name, value := range map[string]string{
		"HEADERS": "=x", "TIMEOUT": "10s", "CERTIFICATE": "no-such-file", "CLIENT_CERTIFICATE": "none",
	} {
		vars := map[string]string{endpoint: "http://127.0.0.1:4318", "OTEL_EXPORTER_OTLP_" + name: value}
		if _, err := newCollector(func(name string) string { return vars[name] }, ""); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: %v", name, value, err)
		}
	}
}

func TestABatchIsSentAgain(t *testing.T) {
	status := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { http.Error(w, text, code) }
	}
	vars := map[string]string{endpoint: "HERE"}
	if got, err := collect(t, vars, "", status(503, "busy"), status(429, "busy")); err != nil || len(got) != 3 {
		t.Errorf("sent %d times, %v", len(got), err)
	}
	if got, err := collect(t, vars, "", status(400, "nonsense")); len(got) != 1 || err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("sent %d times, %v", len(got), err)
	}
}

func TestSpansThatACollectorRefuses(t *testing.T) {
	partial := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 3)
	partial = protowire.AppendString(protowire.AppendTag(partial, 2, protowire.BytesType), "too old")
	answer := func(text []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/x-protobuf")
			_, _ = w.Write(text)
		}
	}
	vars := map[string]string{endpoint: "HERE"}
	whole := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), partial)
	if _, err := collect(t, vars, "", answer(whole)); err == nil || err.Error() != "3 spans were refused: too old" {
		t.Errorf("got %v", err)
	}
	for n := range whole { // a text that is cut off is no fault of the spans
		if _, err := collect(t, vars, "", answer(whole[:n])); err != nil && !strings.Contains(err.Error(), "3 spans") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}
