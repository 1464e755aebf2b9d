package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/mcpgate"
)

// gated puts the gate between clients and a server: each call of a tool goes through a gate of its own, as one from a client
// on stdin and stdout, to the server at a URL. Other requests go to the server itself: the gate passes them as they are.
func gated(eng *engine.Engine, url string, server http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/behind", func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete { // a gate ends; the client's session goes on
			return
		}
		r.URL.Path = "/mcp"
		server.ServeHTTP(w, r)
	})
	mux.HandleFunc("POST /mcp", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(io.LimitReader(r.Body, pawl.MaxBodyBytes))
		var m struct {
			Method string          `json:"method"`
			ID     json.RawMessage `json:"id"`
			Params struct {
				Name string `json:"name"`
			} `json:"params"`
		}
		var line bytes.Buffer
		newer := r.Header.Get("Mcp-Protocol-Version") >= "2026"
		if err != nil || json.Unmarshal(body, &m) != nil || m.Method != "tools/call" || json.Compact(&line, body) != nil ||
			newer && (r.Header.Get("Mcp-Method") != m.Method || r.Header.Get("Mcp-Name") != m.Params.Name) { // a client on stdin has no headers
			r.Body = io.NopCloser(bytes.NewReader(body))
			server.ServeHTTP(w, r)
			return
		}
		if err := through(r.Context(), eng, url+"/behind", r.Header, line.Bytes(), m.ID, w); err != nil {
			slog.ErrorContext(r.Context(), "a call through the gate", "error", err)
		}
	})
	mux.Handle("/", server)
	return mux
}

// The errors whose answers have the status 400.
const (
	codeHeaders    = -32020
	codeCapability = -32021
)

// through carries one call out, and writes what the gate says as a stream of events.
func through(ctx context.Context, eng *engine.Engine, url string, from http.Header, call []byte, id json.RawMessage, w http.ResponseWriter) error {
	o := mcpgate.Options{Name: "conformance", Ledger: eng, Own: true, Log: slog.New(slog.DiscardHandler)}
	held, session, err := mcpgate.Begin(ctx, eng, o)
	if err != nil {
		return err
	}
	o.Fence = session.Fence
	proxy, err := mcpgate.New(o)
	if err != nil {
		return err
	}
	headers := http.Header{}
	for name, values := range from {
		if strings.HasPrefix(name, "Mcp-") {
			headers[name] = values
		}
	}
	in, client := io.Pipe()
	lines, out := io.Pipe()
	ran := make(chan error, 1)
	go func() {
		err := proxy.Run(held, mcpgate.Lines(in, out, out.Close), mcpgate.Remote(held, url, headers))
		out.Close()
		ran <- err
	}()
	if _, err := client.Write(append(call, '\n')); err != nil {
		return err
	}
	r := bufio.NewReader(lines)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			break
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Error  struct {
				Code int `json:"code"`
			} `json:"error"`
		}
		last := json.Unmarshal(line, &m) == nil && m.Method == "" && bytes.Equal(m.ID, id)
		if last && (m.Error.Code == codeHeaders || m.Error.Code == codeCapability) { // over HTTP these have a status too
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
		} else {
			w.Header().Set("Content-Type", "text/event-stream")
			line = append(append([]byte("event: message\ndata: "), line...), '\n')
		}
		_, _ = w.Write(line)
		_ = http.NewResponseController(w).Flush()
		if last {
			client.Close() // the client has its answer
		}
	}
	client.Close()
	return session.End(ctx, <-ran)
}
