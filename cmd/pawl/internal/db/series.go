package db

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// seriesFlags ask for the counters of queues.
type seriesFlags struct {
	since, until string
	step         time.Duration
	types        []string
}

func (f *seriesFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.since, "since", "", "print what happened in each queue from this time on; a duration counts back from now")
	flags.StringVar(&f.until, "until", "", "what happened before this time (default now)")
	flags.DurationVar(&f.step, "step", 0, "time of a row, in whole minutes (default such that there are at most 120)")
	flags.StringSliceVar(&f.types, "type", nil, "what happened in the queues of these types")
}

func (f *seriesFlags) given() bool {
	return f.since != "" || f.until != "" || f.step != 0 || len(f.types) > 0
}

func (f *seriesFlags) show(ctx context.Context, a *cli.App, s pawl.SeriesReader) (err error) {
	q := pawl.SeriesQuery{Types: f.types, Step: f.step}
	if q.Since, err = cli.TimeArg("since", f.since, -1); err != nil {
		return err
	}
	if q.Until, err = cli.TimeArg("until", f.until, -1); err != nil {
		return err
	}
	series, err := s.Series(ctx, q)
	if err != nil {
		return err
	}
	return a.Show(series, func(w io.Writer) { seriesTable(w, series) })
}

func seriesTable(w io.Writer, series []pawl.QueueSeries) {
	var rows []string
	for _, s := range series {
		for _, p := range s.Points {
			queued, leased := "", ""
			if p.Backlog != nil {
				queued, leased = fmt.Sprint(p.Backlog.Queued), fmt.Sprint(p.Backlog.Leased)
			}
			rows = append(rows, terminal.Row(p.At.Format(time.RFC3339), s.Type, p.Created, p.Claimed, p.Completed, p.Failed, p.Expired, p.Retried,
				p.Cancelled, p.DeadLettered, queued, leased, seconds(p.Wait), seconds(p.Run)))
		}
	}
	terminal.Table(w, "AT\tTYPE\tCREATED\tCLAIMED\tCOMPLETED\tFAILED\tEXPIRED\tRETRIED\tCANCELLED\tDEAD\t"+
		"QUEUED\tLEASED\tWAIT P95\tRUN P95", rows)
}

func seconds(t pawl.Timing) string {
	if t.Count == 0 {
		return ""
	}
	return time.Duration(t.P95 * float64(time.Second)).Round(time.Millisecond).String()
}
