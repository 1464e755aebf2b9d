package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/pawl-work/pawl/engine"
	effectgate "github.com/pawl-work/pawl/internal/gate"
	"github.com/pawl-work/pawl/internal/gctune"
	"github.com/pawl-work/pawl/mcp"
	"github.com/pawl-work/pawl/server"
)

// served is a server in a process of its own.
type served struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	log *os.File
	url string
}

// serve starts a server and waits until it listens. The server writes its log to a file, with
// one line per request as by default.
func (b *bench) serve(ctx context.Context, database string, more ...string) (*served, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	s := &served{cmd: exec.CommandContext(ctx, self, append([]string{"serve", "-url", database, "-profile", b.serverProfile}, more...)...)}
	b.admin.made++
	if s.log, err = os.Create(filepath.Join(b.disk, fmt.Sprintf("serve_%d.log", b.admin.made))); err != nil {
		return nil, err
	}
	s.cmd.Stderr = s.log
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	at, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server did not start: %w", err), s.stop())
	}
	s.url = "http://" + strings.TrimSpace(at)
	return s, nil
}

// stop asks the server to end, and waits.
func (s *served) stop() error {
	_ = s.in.Close()
	err := s.cmd.Wait()
	_ = s.log.Close()
	_ = os.Remove(s.log.Name())
	return err
}

// serveAsChild serves until stdin ends.
func serveAsChild(args []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("serve", flag.ContinueOnError)
	url := flags.String("url", "", "the database")
	profile := flags.String("profile", "", "write a CPU profile here")
	upstream := flags.String("upstream", "", "a service behind the gate, as pay")
	key := flags.String("key", "", "the file of the key that signs the log")
	if err := flags.Parse(args); err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, in)
		end()
	}()
	gctune.Limit(gctune.ServerGarbage) // as pawl serve does
	return profiled(*profile, func() error {
		h, err := openEngineWith(context.WithoutCancel(ctx), *url, engine.Options{TransparencyLog: engine.LogOptions{Key: *key}})
		if err != nil {
			return err
		}
		log := slog.New(slog.NewTextHandler(os.Stderr, nil))
		var before http.Handler = server.New(h.Engine, server.Options{Stopping: ctx, Log: log,
			At: map[string]http.Handler{"/mcp": mcp.New(h.Engine, mcp.Options{Stopping: ctx, Log: log, Tools: mcp.ToolsAll}).HTTP()}})
		if *upstream != "" {
			g, err := effectgate.New(effectgate.Options{Ledger: h.Engine, Stopping: ctx, Log: log,
				Upstreams: map[string]effectgate.Upstream{"pay": {URL: *upstream, KeyHeader: "Idempotency-Key"}}})
			if err != nil {
				return errors.Join(err, h.stop())
			}
			before = g.Before(before)
		}
		err = server.Serve(ctx, "127.0.0.1:0", before, server.ServeOptions{Log: log, Listening: func(at net.Addr) {
			_, _ = fmt.Fprintln(out, at) // the parent process sees it if this fails
		}})
		return errors.Join(err, h.stop())
	})
}

// shares is processor time by its user, in seconds or in percent.
type shares struct{ tool, server, database float64 }

func (b *bench) shares(s *served) shares {
	tool := float64(ticksOf("self")) / 100 // USER_HZ
	return shares{tool, float64(ticksOf(strconv.Itoa(s.cmd.Process.Pid))) / 100, b.admin.cpu() - tool}
}

// less returns what was used since before, in percent.
func (u shares) less(before shares) shares {
	tool, server, database := u.tool-before.tool, u.server-before.server, max(0, u.database-before.database)
	all := (tool + server + database) / 100
	return shares{tool / all, server / all, database / all}
}

// resident returns how much of the server's memory is in RAM, in MB. On systems other than
// Linux it returns an error.
func (s *served) resident() (float64, error) { return residentOf(strconv.Itoa(s.cmd.Process.Pid)) }

func residentOf(process string) (float64, error) {
	raw, err := os.ReadFile("/proc/" + process + "/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	size, _, _ := strings.Cut(strings.TrimSpace(rest), " ")
	kb, err := strconv.ParseFloat(size, 64)
	return kb / 1024, err
}
