package db

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/measure"
	"github.com/pawl-work/pawl/internal/terminal"
	"github.com/pawl-work/pawl/internal/testserver"
)

// bench is one run of it.
type bench struct {
	a       *cli.App
	options measure.Options
	report  benchReport
}

// benchReport is the result of a run.
type benchReport struct {
	Reports     []measure.Report `json:"reports"`
	NotMeasured []notMeasured    `json:"not_measured"`
}

// notMeasured is a database that could not be measured, and why.
type notMeasured struct {
	DB  string `json:"db"`
	Why string `json:"why"`
}

// BenchCommand returns the command `pawl bench`.
func BenchCommand(a *cli.App) *cobra.Command {
	b := bench{a: a, report: benchReport{Reports: []measure.Report{}, NotMeasured: []notMeasured{}}}
	cmd := a.Verb(
		"bench",
		"Items a second and pickup latency, on SQLite and PostgreSQL",
		cobra.NoArgs,
		func(cmd *cobra.Command, _ []string) error {
			if err := b.check(); err != nil {
				return err
			}
			var err error
			if a.Config.DBGiven || a.Config.Server != "" {
				err = b.measure(cmd, b.name())
			} else {
				err = errors.Join(b.sqlite(cmd), b.postgres(cmd))
			}
			if err != nil {
				return err
			}
			return a.Show(b.report, b.print)
		},
	)
	cmd.Long = `Creates, claims and completes tasks of one item with 200 bytes of payload: one caller
with batches, then single calls by many callers at once. Every number is with all of it
on: durable commits, leases, events. Then one task at a time is made at a steady rate
while a claim waits, and the time from the call to the claim is taken.

Without --db or --server it measures a temporary SQLite file and, where the machine
has PostgreSQL, a temporary server with fsync on. What it makes in a named database
stays there as completed tasks.`
	f := cmd.Flags()
	f.DurationVar(&b.options.Budget, "budget", time.Second, "how long each row creates; claims and completions take as long as they do")
	f.IntSliceVar(&b.options.Batches, "batches", []int{1, 10, 100, 1000}, "items in one call, by one caller")
	f.IntSliceVar(&b.options.Callers, "callers", []int{1, 16, 64, 256}, "callers of single calls")
	f.IntVar(&b.options.Rate, "rate", 50, "tasks a second for the pickup latency")
	f.IntVar(&b.options.Pickups, "pickups", 200, "tasks for the pickup latency")
	return cmd
}

func (b *bench) check() error {
	o := b.options
	if o.Budget <= 0 || o.Rate < 1 || o.Pickups < 1 {
		return cli.Invalid("--budget, --rate and --pickups must be greater than 0")
	}
	for _, n := range append(o.Batches[:len(o.Batches):len(o.Batches)], o.Callers...) {
		if n < 1 || n > 1000 {
			return cli.Invalid("--batches and --callers must be between 1 and 1000, not %d", n)
		}
	}
	return nil
}

// name is the display name of what was measured.
func (b *bench) name() string {
	if b.a.Config.Server != "" {
		return b.a.Config.Server
	}
	return cli.ShownURL(b.a.Config.DB, b.a.Config.Schema)
}

// measure measures the database or server of the settings.
func (b *bench) measure(cmd *cobra.Command, name string) error {
	return cli.With(b.a, func(ctx context.Context, s measure.Service, _ []string) error {
		return cli.WithSweeps(ctx, s, func(ctx context.Context) error {
			r, err := measure.Take(ctx, s, name, b.options, func(what string) { b.a.Log().Info(what) })
			b.report.Reports = append(b.report.Reports, r)
			return err
		})
	})(cmd, nil)
}

func (b *bench) sqlite(cmd *cobra.Command) (err error) {
	disk, err := testserver.DiskDir()
	if err != nil {
		b.leaveOut("sqlite", err)
		return nil
	}
	dir, err := os.MkdirTemp(disk, "pawl-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	b.a.Config.DB = "sqlite:" + filepath.Join(dir, "bench.db")
	return b.measure(cmd, "sqlite, a temporary file")
}

func (b *bench) postgres(cmd *cobra.Command) (err error) {
	server, err := testserver.Start(cmd.Context(), testserver.Options{Durable: true})
	if err != nil {
		b.leaveOut("postgres", err)
		return nil
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	b.a.Config.DB = server.URL
	return b.measure(cmd, "postgres, a temporary server")
}

func (b *bench) leaveOut(db string, err error) {
	b.report.NotMeasured = append(b.report.NotMeasured, notMeasured{db, err.Error()})
}

func (b *bench) print(w io.Writer) {
	for _, r := range b.report.Reports {
		var rows []string
		for _, x := range r.Rows {
			rows = append(
				rows,
				terminal.Row(x.Batch, x.Callers, x.Items, perSecond(x.Create), perSecond(x.Claim), perSecond(x.Complete), perSecond(x.Life)),
			)
		}
		fmt.Fprintf(w, "%s, items a second\n", terminal.Printable(r.DB))
		terminal.Table(w, "BATCH\tCALLERS\tITEMS\tCREATE\tCLAIM\tCOMPLETE\tWHOLE LIFE", rows)
		fmt.Fprintf(w, "pickup latency at %d tasks per second: p50 %.1f ms, p99 %.1f ms\n\n", r.PickupRate, r.PickupP50, r.PickupP99)
	}
	for _, n := range b.report.NotMeasured {
		fmt.Fprintf(w, "%s was not measured: %s\n", n.DB, terminal.Printable(n.Why))
	}
}

// perSecond rounds to three digits, the precision of the measurement.
func perSecond(v float64) string {
	if v < 100 {
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return strconv.FormatFloat(math.Round(v/unit)*unit, 'f', 0, 64)
}
