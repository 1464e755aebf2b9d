package main

import (
	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl/cmd/pawl/internal/blob"
	"github.com/pawl-work/pawl/cmd/pawl/internal/budget"
	"github.com/pawl-work/pawl/cmd/pawl/internal/bulk"
	"github.com/pawl-work/pawl/cmd/pawl/internal/checkpoint"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/cmd/pawl/internal/db"
	"github.com/pawl-work/pawl/cmd/pawl/internal/demo"
	"github.com/pawl-work/pawl/cmd/pawl/internal/effect"
	"github.com/pawl-work/pawl/cmd/pawl/internal/event"
	"github.com/pawl-work/pawl/cmd/pawl/internal/gate"
	"github.com/pawl-work/pawl/cmd/pawl/internal/idempotency"
	"github.com/pawl-work/pawl/cmd/pawl/internal/item"
	"github.com/pawl-work/pawl/cmd/pawl/internal/key"
	"github.com/pawl-work/pawl/cmd/pawl/internal/message"
	"github.com/pawl-work/pawl/cmd/pawl/internal/namespace"
	"github.com/pawl-work/pawl/cmd/pawl/internal/queue"
	"github.com/pawl-work/pawl/cmd/pawl/internal/relay"
	"github.com/pawl-work/pawl/cmd/pawl/internal/schedule"
	"github.com/pawl-work/pawl/cmd/pawl/internal/serve"
	"github.com/pawl-work/pawl/cmd/pawl/internal/signal"
	"github.com/pawl-work/pawl/cmd/pawl/internal/task"
	"github.com/pawl-work/pawl/cmd/pawl/internal/tasktype"
	"github.com/pawl-work/pawl/cmd/pawl/internal/top"
	"github.com/pawl-work/pawl/cmd/pawl/internal/worker"
)

func root(a *cli.App) *cobra.Command {
	root := cli.Noun("pawl", "A durable engine for long, expensive, failure-prone work")
	root.Long = "Pawl leases work to workers, saves checkpoints and stores an event for each change.\n\n" +
		"Settings come from flags, then PAWL_* variables, then pawl.yaml, then defaults."
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(a.Stdin)
	root.SetOut(a.Stdout)
	root.SetErr(a.Stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.FlagError(cmd, err)
	})
	cli.GlobalFlags(root.PersistentFlags())
	_ = root.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json"}, cobra.ShellCompDirectiveNoFileComp))
	root.AddCommand(
		task.Command(a),
		task.FailuresCommand(a),
		item.Command(a),
		item.WhyCommand(a),
		message.Command(a),
		event.Command(a),
		checkpoint.Command(a),
		blob.Command(a),
		signal.Command(a),
		idempotency.Command(a),
		key.Command(a),
		tasktype.Command(a), namespace.Command(a),
		worker.Command(a),
		serve.Command(a),
		serve.MCPCommand(a),
		queue.Command(a),
		budget.Command(a),
		effect.Command(a),
		gate.Command(a),
		schedule.Command(a),
		bulk.Command(a),
		relay.Command(a),
		db.SweepCommand(a),
		serve.TickCommand(a),
		db.PruneCommand(a),
		db.ArchiveCommand(a),
		db.BackupCommand(a),
		db.StatusCommand(a),
		db.AdoptCommand(a),
		db.MoveCommand(a),
		db.CompactCommand(a),
		db.MigrateCommand(a),
		db.StatsCommand(a),
		top.Command(a),
		db.ProvenanceCommand(a),
		db.VerifyCommand(a),
		db.LogCommand(a),
		db.DoctorCommand(a),
		db.BenchCommand(a),
		demo.Command(a),
		demo.WorkerCommand(a),
		demo.AgentCommand(a),
		versionCmd(a),
	)
	return root
}
