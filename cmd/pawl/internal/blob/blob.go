// Package blob has the commands of `pawl blob`.
package blob

import (
	"context"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
)

// Command returns the command and its subcommands.
func Command(a *cli.App) *cobra.Command {
	return cli.Noun("blob", "Bytes that are too many for a payload", blobPut(a), blobGet(a))
}

// inStore runs a command that has the flags of the stores of blobs.
func inStore(a *cli.App, run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.NotOfServer(cmd.Flags(), "blobs."); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

func blobPut(a *cli.App) *cobra.Command {
	var address string
	cmd := a.Verb("put FILE", "Store a file, or - for stdin, and print its address", cobra.ExactArgs(1),
		inStore(a, cli.With(a, func(ctx context.Context, s pawl.BlobWriter, args []string) error {
			upload := pawl.BlobUpload{Content: a.Stdin, Address: address}
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return cli.Invalid("%v", err)
				}
				defer f.Close()
				upload.Content = f
				if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
					upload.Size = info.Size()
				}
			}
			b, err := s.PutBlob(ctx, upload)
			if err != nil {
				return err
			}
			return a.Show(b, func(w io.Writer) { terminal.Fields(w, "address", b.Address, "size", strconv.FormatInt(b.Size, 10)) })
		})))
	cli.SettingFlags(cmd.Flags(), "blobs.")
	cmd.Flags().StringVar(&address, "address", "", "refuse a file that does not have this address")
	cmd.Example = "  pawl blob put report.pdf"
	return cmd
}

func blobGet(a *cli.App) *cobra.Command {
	var out string
	cmd := a.Verb("get ADDRESS", "Write the bytes of a blob to stdout or a file", cobra.ExactArgs(1),
		inStore(a, cli.With(a, func(ctx context.Context, s pawl.BlobReader, args []string) (err error) {
			_, content, err := s.OpenBlob(ctx, args[0])
			if err != nil {
				return err
			}
			defer content.Close()
			if out == "" || out == "-" {
				_, err = io.Copy(a.Stdout, content)
				return err
			}
			f, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if err != nil {
				return cli.Invalid("%v", err)
			}
			_, err = io.Copy(f, content)
			if closed := f.Close(); err == nil {
				err = closed
			}
			if err != nil {
				_ = os.Remove(out) // a file that is not whole would look like one that is
			}
			return err
		})))
	cli.SettingFlags(cmd.Flags(), "blobs.")
	cmd.Flags().StringVar(&out, "file", "", "write to this new file instead of stdout")
	return cmd
}
