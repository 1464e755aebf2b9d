package db

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/cmd/pawl/internal/task"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/internal/terminal"
	"github.com/pawl-work/pawl/translog"
)

// ArchiveCommand returns the command `pawl archive`.
func ArchiveCommand(a *cli.App) *cobra.Command {
	return cli.Noun("archive", "Tasks that were archived and removed", archiveList(a), archiveRestore(a), archiveDelete(a), archiveVerify(a))
}

func archiveList(a *cli.App) *cobra.Command {
	var p cli.Pages
	cmd := a.Verb("ls", "List archives", cobra.NoArgs, cli.With(a, func(ctx context.Context, s pawl.ArchiveKeeper, _ []string) error {
		line := func(x pawl.Archive) string { return terminal.Row(x.TaskID, x.Bytes, x.CreatedAt, x.RestoredAt, x.Path) }
		return cli.List(ctx, a, p, "TASK\tBYTES\tARCHIVED\tRESTORED\tPATH", line, s.ListArchives)
	}))
	p.Flags(cmd)
	return cmd
}

func archiveRestore(a *cli.App) *cobra.Command {
	return a.Verb(
		"restore TASK",
		"Restore an archived task",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.ArchiveKeeper, args []string) error {
			t, err := s.RestoreArchive(ctx, args[0])
			if err != nil {
				return err
			}
			return a.Show(t, func(w io.Writer) { task.ShowTask(w, t) })
		}),
	)
}

func archiveDelete(a *cli.App) *cobra.Command {
	return a.Verb(
		"delete TASK",
		"Delete what is archived of a task, which cannot be restored then",
		cobra.ExactArgs(1),
		cli.With(a, func(ctx context.Context, s pawl.ArchiveKeeper, args []string) error {
			return a.Done(s.DeleteArchive(ctx, args[0]), "deleted the archive of "+args[0])
		}),
	)
}

func archiveVerify(a *cli.App) *cobra.Command {
	var trust translog.Trust
	cmd := a.Verb("verify FILE", "Compare the events of an archive with the proofs that it has; exit 1 if they differ", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string) error {
			if len(trust.Keys) == 0 {
				return cli.Invalid("archive verify needs --verifier: a public key of the log, from the file beside its signing key")
			}
			v, err := engine.VerifyArchiveWith(args[0], trust)
			if err != nil {
				return err
			}
			return shown(v.Intact, a.Show(v, func(w io.Writer) {
				terminal.Fields(w, "task", v.TaskID, "namespace", v.Namespace, "events", strconv.Itoa(v.Events),
					"proved under the checkpoint", strconv.Itoa(v.Proved))
				if v.Tasks > 1 {
					terminal.Fields(w, "tasks of the segment", strconv.Itoa(v.Tasks))
				}
				if v.Checkpoint != nil {
					checkpoint(w, v.Checkpoint, &trust)
				}
				except := ""
				if n := len(v.Unproved); n > 0 {
					except = ", but for those named above"
					fmt.Fprintf(w, "inputs and results that are not proved, because they were gone when they were logged: those of %d events: %s\n", n,
						terminal.Printable(strings.Join(v.Unproved, ", ")))
				}
				faults(w, v.Faults)
				if v.Intact {
					fmt.Fprintf(w, "intact: this proves that the events are in the log, with the inputs and results that they stand for%s, "+
						"not that no event is missing\n", except)
				}
			}))
		})
	cmd.Flags().StringArrayVar(&trust.Keys, "verifier", nil,
		"public keys, one a line, of which one must have signed the checkpoint in the archive; may be repeated")
	cli.WitnessFlags(cmd, &trust)
	cmd.Long = "Proves, without a database, that the events of an archived task are in the log under the\n" +
		"checkpoint that the archive has, with the inputs and results that they stand for. It proves\n" +
		"inclusion, not completeness: an event that was removed together with its place in the last\n" +
		"line is not missed. Keys are lines of the file beside the signing key."
	cmd.Example = "  pawl archive verify tsk_01J….arc_01K….jsonl.zst --verifier \"$(cat work.db.logkey.pub)\""
	return cmd
}
