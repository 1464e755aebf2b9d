// Package translog signs checkpoints of the transparency log and keeps the signer's files.
// A checkpoint names a log, its size and the root of its Merkle tree (RFC 6962), in the
// text format of C2SP tlog-checkpoint, signed as a note (golang.org/x/mod/sumdb/note).
package translog

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Checkpoint is a state of a log: its name, its number of leaves, and the root of their
// tree.
type Checkpoint struct {
	Origin string
	Size   int64
	Root   tlog.Hash
}

// String returns the text that is signed: three lines.
func (c Checkpoint) String() string {
	return fmt.Sprintf("%s\n%d\n%s\n", c.Origin, c.Size, c.Root)
}

var errText = errors.New("it is not the text of a checkpoint: a name, a size and a root, a line each")

// Parse reads the text of a checkpoint. Further lines are extensions, which it ignores.
func Parse(text string) (c Checkpoint, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 4 || lines[0] == "" || lines[len(lines)-1] != "" {
		return c, errText
	}
	if c.Size, err = strconv.ParseInt(lines[1], 10, 64); err != nil || c.Size < 0 || strconv.FormatInt(c.Size, 10) != lines[1] {
		return c, errText
	}
	root, err := base64.StdEncoding.DecodeString(lines[2])
	if err != nil || len(root) != tlog.HashSize {
		return c, errText
	}
	c.Origin = lines[0]
	copy(c.Root[:], root)
	return c, nil
}

// Read reads a signed checkpoint without checking its signatures.
func Read(text string) (Checkpoint, error) {
	body, _, found := strings.Cut(text, "\n\n")
	if !found {
		return Checkpoint{}, errText
	}
	return Parse(body + "\n")
}

// Verifiers returns the verifier keys of texts that have one or more each, a line each, as the
// file beside a signing key has them. A key that cannot be used is an error, and so is none.
func Verifiers(texts []string) ([]string, error) {
	var out []string
	for _, k := range strings.Fields(strings.Join(texts, "\n")) {
		if _, err := note.NewVerifier(k); err != nil {
			return nil, fmt.Errorf("the verifier key %q cannot be used: %w", k, err)
		}
		if !slices.Contains(out, k) { // note.Open refuses a list that has a key twice
			out = append(out, k)
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no verifier key is given")
	}
	return out, nil
}

// Open reads a signed checkpoint. At least one of the verifier keys must have signed it.
func Open(text string, keys []string) (Checkpoint, error) {
	list := make([]note.Verifier, 0, len(keys))
	for _, k := range keys {
		v, err := note.NewVerifier(k)
		if err != nil {
			return Checkpoint{}, fmt.Errorf("the verifier key %q cannot be used: %w", k, err)
		}
		list = append(list, v)
	}
	n, err := note.Open([]byte(text), note.VerifierList(list...))
	if err != nil {
		return Checkpoint{}, err
	}
	return Parse(n.Text)
}
