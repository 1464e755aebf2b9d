package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
)

// ServeOptions configures Serve. The zero value sets the default of each option.
type ServeOptions struct {
	// Grace is how long running requests may take after ctx has ended; 0 = 30 s.
	Grace time.Duration
	// Notice is how long calls are still accepted after ctx has ended. Meanwhile readyz
	// answers 503, so that a load balancer stops sending requests; 0 = none.
	Notice time.Duration
	// CertFile and KeyFile are PEM files; with them the server uses TLS. They are read again
	// when they change.
	CertFile, KeyFile string
	// HeaderTime is how long a caller may take to send the header of a request; 0 = 10 s.
	HeaderTime time.Duration
	// Listening is called with the address, including its port, before the first request.
	Listening func(net.Addr)
	// Log receives the errors of the HTTP server; nil = slog's default.
	Log *slog.Logger
	// Guarded says that every call needs an API key (access.Options.Required). Only then are
	// addresses served that other machines can reach.
	Guarded bool
}

// Serve listens on addr ("127.0.0.1:7033", or "unix:/path/to/socket" with file mode 0600) and
// serves h until ctx ends. Then it accepts no new connections and lets running requests
// finish. It returns nil, or unavailable if it had to cut some of them. Pass the same ctx to
// New as Options.Stopping. An address that other machines can reach is refused, unless Guarded
// is set.
func Serve(ctx context.Context, addr string, h http.Handler, o ServeOptions) error {
	if o.Grace <= 0 {
		o.Grace = pawl.DefaultStopGrace
	}
	if o.HeaderTime <= 0 {
		o.HeaderTime = 10 * time.Second
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	certs, err := certificates(o.CertFile, o.KeyFile)
	if err != nil {
		return err
	}
	ln, err := listen(ctx, addr, o.Guarded)
	if err != nil {
		return err
	}
	if certs == nil && Public(addr) {
		o.Log.WarnContext(ctx, "serving without TLS on an address that other machines reach: API keys and payloads can be read on the way; "+
			"give a certificate, or listen on loopback behind a proxy that speaks TLS", "addr", ln.Addr().String())
	}
	if o.Listening != nil {
		o.Listening(ln.Addr())
	}
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: o.HeaderTime,
		// There is no ReadTimeout: it would end claims that wait. Bodies have a limit of their
		// own.
		WriteTimeout:   pawl.MaxWaitSeconds*time.Second + time.Minute,
		IdleTimeout:    2 * time.Minute,
		MaxHeaderBytes: 256 << 10,
		ErrorLog:       slog.NewLogLogger(o.Log.Handler(), slog.LevelWarn),
		TLSConfig:      certs,
	}
	served := make(chan error, 1)
	go func() {
		if certs != nil {
			served <- srv.ServeTLS(ln, "", "")
		} else {
			served <- srv.Serve(ln)
		}
	}()
	if err := until(ctx, o.Notice, served); err != nil {
		return &pawl.Error{Code: pawl.CodeUnavailable, Op: "serve", Message: "serving " + addr + " ended", Err: err}
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), o.Grace)
	defer cancel()
	err = srv.Shutdown(grace)
	if err != nil {
		_ = srv.Close()
	}
	<-served
	if errors.Is(err, context.DeadlineExceeded) {
		return &pawl.Error{Code: pawl.CodeUnavailable, Op: "serve",
			Message: fmt.Sprintf("requests still under way after %s were cut", o.Grace), Err: err}
	}
	return err
}

// until waits for ctx to end, and then for notice. It returns an error if serving ends before
// that.
func until(ctx context.Context, notice time.Duration, served <-chan error) error {
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-served:
		return err
	case <-time.After(notice):
		return nil
	}
}

// socketPrefix begins the address of a Unix socket; the path follows it.
const socketPrefix = "unix:"

// Public reports whether other machines can reach an address to listen on.
func Public(addr string) bool {
	if strings.HasPrefix(addr, socketPrefix) {
		return false
	}
	host, _, err := net.SplitHostPort(addr)
	return err == nil && !access.Loopback(host)
}

// listen listens on an address. Without guarded it refuses addresses that are not loopback,
// both before and after names are looked up.
func listen(ctx context.Context, addr string, guarded bool) (net.Listener, error) {
	if path, is := strings.CutPrefix(addr, socketPrefix); is {
		// @ begins an abstract name, which has no file and no mode.
		if path == "" || path[0] == '@' || len(path) > longestSocket || strings.ContainsRune(path, 0) {
			return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: "serve",
				Message: fmt.Sprintf("%q names no socket; write it as unix:/path/to/socket, with at most %d bytes of path", addr, longestSocket)}
		}
		ln, err := listenSocket(ctx, path)
		if err != nil {
			return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "serve", Message: "cannot listen on " + addr, Err: err}
		}
		return ln, nil
	}
	host, port, err := net.SplitHostPort(addr)
	if err == nil {
		_, err = net.DefaultResolver.LookupPort(ctx, "tcp", port)
	}
	if err != nil {
		return nil, &pawl.Error{Code: pawl.CodeInvalid, Op: "serve",
			Message: fmt.Sprintf("%q is no address; write it as 127.0.0.1:7033", addr), Err: err}
	}
	open := &pawl.Error{Code: pawl.CodeInvalid, Op: "serve",
		Message: fmt.Sprintf("%q can be reached from other machines; without API keys only loopback is served, such as 127.0.0.1:7033", addr)}
	if !guarded && !access.Loopback(host) {
		return nil, open
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, &pawl.Error{Code: pawl.CodeUnavailable, Op: "serve", Message: "cannot listen on " + addr, Err: err}
	}
	if at, ok := ln.Addr().(*net.TCPAddr); !guarded && (!ok || !at.IP.IsLoopback()) {
		_ = ln.Close()
		return nil, open
	}
	return ln, nil
}
