package tasktype

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

func typeSuggest(a *cli.App) *cobra.Command {
	cmd := a.Verb("suggest [TYPE…]", "Suggest leases that would have avoided expiries, from measured durations", cobra.ArbitraryArgs,
		func(cmd *cobra.Command, args []string) error {
			return cli.With(a, func(ctx context.Context, s pawl.LeaseAdviser, args []string) error {
				advice, err := s.SuggestLeases(ctx, args...)
				if err != nil {
					return err
				}
				for i := range advice {
					if advice[i].Command != "" {
						advice[i].Command = a.Complete(cmd, advice[i].Command)
					}
				}
				out := pawl.List[pawl.LeaseAdvice]{Items: append([]pawl.LeaseAdvice{}, advice...)}
				return a.Show(out, func(w io.Writer) { adviceTable(w, advice) })
			})(cmd, args)
		})
	cmd.Long = "Compares the leases of types with how long their newest attempts took, and prints the command that applies\n" +
		"a longer one. It changes nothing itself."
	return cmd
}

func adviceTable(w io.Writer, advice []pawl.LeaseAdvice) {
	rows := make([]string, len(advice))
	for i, x := range advice {
		e := x.Evidence
		rows[i] = terminal.Row(x.Type, setting(x.Current), setting(x.Suggested), e.N, duration(e.P50), duration(e.P95), duration(e.P99),
			e.Expiries, e.Avoided)
	}
	terminal.Table(w, "TYPE\tLEASE/HEARTBEAT\tSUGGESTED\tATTEMPTS\tP50\tP95\tP99\tEXPIRED\tAVOIDED", rows)
	for _, x := range advice {
		fmt.Fprintf(w, "%s: %s\n", terminal.Printable(x.Type), x.Detail)
		if x.Command != "" {
			fmt.Fprintf(w, "To apply it: %s\n", terminal.Printable(x.Command))
		}
	}
}

func setting(s pawl.LeaseSetting) string {
	return duration(float64(s.LeaseSeconds)) + "/" + duration(s.HeartbeatSeconds)
}

func duration(seconds float64) string {
	return time.Duration(seconds * float64(time.Second)).Round(time.Millisecond).String()
}

func typeSet(a *cli.App) *cobra.Command {
	var lease time.Duration
	cmd := a.Verb("set TYPE", "Change the lease of a type, as a new version", cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.Service, args []string) error {
			if lease < time.Second || lease%time.Second != 0 {
				return cli.Invalid("--lease must be whole seconds, at least one")
			}
			t, err := s.GetType(ctx, args[0], 0)
			if pawl.CodeOf(err) == pawl.CodeNotFound || err == nil && t.RemovedAt != nil {
				t, err = pawl.Type{Name: args[0]}, nil // it has the defaults so far
			}
			if err != nil {
				return err
			}
			t.LeaseSeconds = int(lease / time.Second)
			rs, err := s.PutTypes(a.ByUser(ctx), []pawl.Type{t})
			return cli.ShowEach(a, rs, err, showPut)
		}))
	cmd.Flags().DurationVar(&lease, "lease", 0, "length of a lease; a worker extends it ten times in this time")
	_ = cmd.MarkFlagRequired("lease")
	cmd.Long = "Reads the current version of a type, changes its lease and registers it as the next version. A type that is not\n" +
		"registered gets registered with the defaults. If the type comes from a file, change the file too."
	return cmd
}
