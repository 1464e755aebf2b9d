// Command bench compares Pawl with its targets on this machine. It measures River and other
// queues, hand-written SQL and backlite in the same run, on the same temporary server or disk, with
// everything on. It prints one line per target, and exits with 1 if Pawl missed a target that
// docs/performance.md does not list as a known miss. README.md explains how to read it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"syscall"
	"time"

	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/clock"
	"github.com/pawl-work/pawl/internal/testserver"
)

// bench is one run.
type bench struct {
	short         bool
	rounds        int     // how often the systems alternate
	scale         float64 // of the sizes, for trying the bench itself
	server        *testserver.Server
	admin         *admin
	soak          time.Duration
	disk          string // for SQLite files
	docs          string
	until         time.Time // when the section's time in the short form is used up
	serverProfile string    // CPU profile of a server behind HTTP
	install       bool      // the peers that are missing
	report
}

// section measures some lines of the report.
type section struct {
	name   string
	budget time.Duration // in the short form; 0 = only in the full form
	run    func(*bench, context.Context) error
	named  bool // the full form takes half an hour and more, and runs only with -only
}

var sections = []section{
	{name: "sustained", budget: 45 * time.Second, run: (*bench).sustained},
	{name: "peers", budget: 45 * time.Second, run: (*bench).othersLives},
	{name: "life", budget: 80 * time.Second, run: (*bench).life},
	{name: "log", budget: 25 * time.Second, run: (*bench).log},
	{name: "single", budget: 30 * time.Second, run: (*bench).single},
	{name: "pooled", budget: 20 * time.Second, run: (*bench).pooled},
	{name: "pickup", budget: 65 * time.Second, run: (*bench).pickups},
	{name: "bytes", run: (*bench).lifeBytes},
	{name: "retirement", budget: 20 * time.Second, run: (*bench).retirement},
	{name: "leases", budget: 25 * time.Second, run: (*bench).leases},
	{name: "steps", budget: 20 * time.Second, run: (*bench).stepsOfBoth},
	{name: "fleet", budget: 35 * time.Second, run: (*bench).fleet},
	{name: "flow", budget: 30 * time.Second, run: (*bench).flow},
	{name: "sqlite", budget: 45 * time.Second, run: (*bench).sqlite},
	{name: "accept", budget: 10 * time.Second, run: (*bench).acceptance},
	{name: "held", budget: 30 * time.Second, run: (*bench).held},
	{name: "schedule", budget: 20 * time.Second, run: (*bench).schedule, named: true},
	{name: "steady", budget: 20 * time.Second, run: (*bench).steady, named: true},
	{name: "messages", budget: 40 * time.Second, run: (*bench).messages},
	{name: "http", run: (*bench).http},
	{name: "mcp", run: (*bench).mcp},
	{name: "gate", run: (*bench).gated},
	{name: "idle", run: (*bench).idle},
	{name: "move", run: (*bench).moves},
	{name: "sight", budget: 60 * time.Second, run: (*bench).sight},
	{name: "backlog", run: (*bench).backlog},
	{name: "bloat", run: (*bench).bloat},
	{name: "checkpoints", run: (*bench).manyCheckpoints},
}

// children are the commands with which this program starts itself.
var children = map[string]func(args []string, in io.Reader, out io.Writer) error{
	"drain": drainAsChild, // one process of the fleet
	"serve": serveAsChild, // the server behind HTTP
}

func main() {
	if err := os.Setenv("PAWL_IDENTITY", engine.IdentityTrust); err != nil { // its databases are copies of a template
		panic(err)
	}
	if len(os.Args) > 1 {
		if as, ok := children[os.Args[1]]; ok {
			if err := as(os.Args[2:], os.Stdin, os.Stdout); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	os.Exit(run())
}

func run() int {
	var b bench
	flag.BoolVar(&b.short, "short", false, "smaller sizes and without what takes minutes: under 8 minutes")
	flag.IntVar(&b.rounds, "rounds", 3, "how often the systems alternate")
	flag.Float64Var(&b.scale, "scale", 1, "of all sizes; other than 1 is for trying the bench itself")
	flag.DurationVar(&b.soak, "soak", 0,
		"how long the section messages has its streams speak in the end, to see that memory stays flat; 0 = not")
	flag.StringVar(&b.docs, "docs", "../docs", "where performance.md is and the curves go")
	flag.BoolVar(&b.install, "install", true, "install peers for Node and Python that are missing, from their registries")
	inJSON := flag.Bool("json", false, "print one JSON object a line: name, value, unit, low, high, target, verdict, peer")
	only := flag.String("only", "", "run only sections whose names match")
	profile := flag.String("profile", "", "write a CPU profile here")
	flag.StringVar(&b.serverProfile, "server-profile", "", "write a CPU profile of the last server behind HTTP here")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})))
	pick, err := regexp.Compile(*only)
	if err == nil {
		b.report, err = newReport(os.Stdout, filepath.Join(b.docs, "performance.md"))
	}
	b.json = *inJSON
	if err == nil {
		err = profiled(*profile, func() error { return b.all(ctx, pick) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 2
	}
	return b.close()
}

// profiled runs fn, with a CPU profile if a file is named.
func profiled(file string, fn func() error) (err error) {
	if file == "" {
		return fn()
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return err
	}
	defer func() {
		pprof.StopCPUProfile()
		err = errors.Join(err, f.Close())
	}()
	return fn()
}

// all starts what is needed and runs the sections.
func (b *bench) all(ctx context.Context, pick *regexp.Regexp) (err error) {
	if b.server, err = testserver.Start(ctx, testserver.Options{Durable: true}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.server.Stop()) }()
	b.disk = filepath.Join(b.server.Dir, "files") // it is removed with the server, however that ends
	if err := os.Mkdir(b.disk, 0o700); err != nil {
		return err
	}
	if b.admin, err = newAdmin(ctx, b.server); err != nil {
		return err
	}
	defer b.admin.close(ctx)
	describe(os.Stderr, b.server)
	for _, s := range sections {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if !b.runs(s, pick.String()) || !pick.MatchString(s.name) {
			continue
		}
		start := clock.Now()
		b.until = start.Add(s.budget)
		if err := s.run(b, ctx); err != nil {
			b.broken(s.name, err)
		}
		b.say("%s took %.0f s", s.name, clock.Now().Sub(start).Seconds())
	}
	return nil
}

// runs reports whether a section belongs to this form, in which the sections that match only were asked for.
func (b *bench) runs(s section, only string) bool {
	if b.short {
		return s.budget > 0
	}
	return !s.named || only != ""
}

// sized returns a size for the form of this run.
func (b *bench) sized(full, short int) int {
	n := full
	if b.short {
		n = short
	}
	return max(1, int(float64(n)*b.scale))
}

// alternate runs fn once per round. If the section's time in the short form is used up because
// the machine is busy, it runs fewer rounds and says so.
func (b *bench) alternate(fn func() error) error {
	for round := range b.rounds {
		start := clock.Now()
		if err := fn(); err != nil {
			return err
		}
		now := clock.Now()
		if left := b.rounds - round - 1; b.short && left > 0 && now.Add(now.Sub(start)).After(b.until) {
			b.say("the time is up: %d of %d rounds are left out", left, b.rounds)
			break
		}
	}
	return nil
}

// say writes a progress message to stderr.
func (b *bench) say(format string, args ...any) { fmt.Fprintf(os.Stderr, "# "+format+"\n", args...) }

func describe(w io.Writer, s *testserver.Server) {
	fmt.Fprintf(w, "# PostgreSQL %s with %v, else its defaults; %s\n", s.Version, testserver.Options{Durable: true}.Settings(), machine())
}
