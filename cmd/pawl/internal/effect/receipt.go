package effect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
	"github.com/pawl-work/pawl/internal/terminal"
	"github.com/pawl-work/pawl/translog"
)

// signer brings the transparency log up to date and signs it; the engine implements it.
type signer interface {
	Log(ctx context.Context) error
	SignLog(ctx context.Context) (string, error)
}

// A server signs what is new within about a second.
const (
	receiptTries = 20
	receiptPause = 250 * time.Millisecond
)

func effectReceipt(a *cli.App) *cobra.Command {
	var file string
	write := func(ctx context.Context, s pawl.EffectReader, args []string) error {
		if _, err := s.GetEffect(ctx, args[0]); err != nil {
			return err
		}
		r, err := s.EffectReceipt(ctx, args[0])
		if l, ok := s.(signer); ok && pawl.CodeOf(err) == pawl.CodeNotFound {
			if err := errors.Join(l.Log(ctx), sign(ctx, l)); err != nil {
				return err
			}
			r, err = s.EffectReceipt(ctx, args[0])
		}
		for try := 1; pawl.CodeOf(err) == pawl.CodeNotFound && try < receiptTries; try++ {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(receiptPause):
			}
			r, err = s.EffectReceipt(ctx, args[0])
		}
		if err != nil {
			return err
		}
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return err
		}
		return save(a, file, append(text, '\n'))
	}
	cmd := a.Verb("receipt EFFECT", "Write a proof of what became of an effect, to check without the database", cobra.ExactArgs(1),
		cli.With(a, write))
	cmd.Flags().StringVar(&file, "file", "", "write to this new file instead of stdout")
	cmd.Long = "Writes the events of an effect as the transparency log has them, their proofs and the signed\n" +
		"checkpoint. It has digests of the request and the answer, and neither of the two. With --db it\n" +
		"first brings the log up to date and signs it, if that is needed."
	cmd.Example = "  pawl effect receipt eff_01J… --file receipt.json\n" +
		"  pawl effect verify receipt.json --verifier \"$(cat work.db.logkey.pub)\""
	return cmd
}

func sign(ctx context.Context, l signer) error {
	_, err := l.SignLog(ctx)
	return err
}

// save writes a receipt to a new file, or to stdout.
func save(a *cli.App, file string, text []byte) error {
	if file == "" || file == "-" {
		_, err := a.Stdout.Write(text)
		return err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return cli.Invalid("%v", err)
	}
	_, err = f.Write(text)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		_ = os.Remove(file) // a file that is not whole would look like one that is
	}
	return err
}

// verification is what verify prints.
type verification struct {
	Holds      bool                  `json:"holds"`
	Effect     *pawl.EffectStatement `json:"effect,omitempty"` // nil = it does not hold
	Checkpoint int64                 `json:"checkpoint,omitempty"`
	Origin     string                `json:"origin,omitempty"`
	Fault      string                `json:"fault,omitempty"`
}

func effectVerify(a *cli.App) *cobra.Command {
	var trust translog.Trust
	cmd := a.Verb("verify FILE", "Check a receipt without the database; exit 1 if it does not hold", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string) error { return verify(a, args[0], trust) })
	cmd.Flags().StringArrayVar(&trust.Keys, "verifier", nil,
		"public keys of the log, one a line, of which one must have signed the checkpoint; may be repeated")
	cli.WitnessFlags(cmd, &trust)
	cmd.Example = "  pawl effect verify receipt.json --verifier \"$(cat work.db.logkey.pub)\""
	return cmd
}

func verify(a *cli.App, path string, trust translog.Trust) error {
	if len(trust.Keys) == 0 {
		return cli.Invalid("effect verify needs --verifier: a public key of the log, from the file beside its signing key")
	}
	trust, err := trust.Check()
	if err != nil {
		return cli.Invalid("%v", err)
	}
	file, err := readFile(path)
	if err != nil {
		return cli.Invalid("%v", err)
	}
	v := verification{}
	said, c, err := translog.VerifyReceipt(file, trust)
	switch {
	case errors.Is(err, translog.ErrUnreadable):
		return cli.Invalid("%s: %v", path, err)
	case err != nil:
		v.Fault = err.Error()
	default:
		v.Holds, v.Effect, v.Checkpoint, v.Origin = true, &said, c.Size, c.Origin
	}
	if err := a.Show(v, func(w io.Writer) { print(w, &v) }); err != nil || v.Holds {
		return err
	}
	return cli.ErrCheck
}

// maxReceiptBytes bounds the file that is read.
const maxReceiptBytes = 64 << 20

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxReceiptBytes+1))
	if err == nil && len(b) > maxReceiptBytes {
		err = fmt.Errorf("%s is larger than %d bytes", path, maxReceiptBytes)
	}
	return b, err
}

func print(w io.Writer, v *verification) {
	if !v.Holds {
		fmt.Fprintln(w, "it does not hold:", terminal.Printable(v.Fault))
		return
	}
	e := v.Effect
	who := func(a *pawl.EffectActor) string {
		if a == nil {
			return ""
		}
		return strings.TrimSpace(a.Type+" "+a.ID) + ", " + terminal.OptionalTime(&a.At)
	}
	terminal.Fields(w, "effect", e.ID, "name", e.Name, "key", e.Key, "task", e.TaskID, "item", e.ItemID, "namespace", e.Namespace,
		"state", string(e.State), "outcome", e.Outcome, "sent", strconv.Itoa(e.Sendings), "request", e.RequestHash, "answer", e.AnswerHash,
		"sent by", who(e.SentBy), "approved by", who(e.ApprovedBy), "decided by", who(e.DecidedBy), "checkpoint",
		strconv.FormatInt(v.Checkpoint, 10), "log", v.Origin)
	fmt.Fprintln(w, "it holds: these events are in the signed log; a later one may not be in the receipt")
}
