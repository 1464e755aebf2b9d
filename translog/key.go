package translog

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/pawl-work/pawl/internal/durable"
)

// The files of a signer: the private key, the public keys that it has had, and the
// highest checkpoint that it has signed.
const (
	publicSuffix = ".pub"
	signedSuffix = ".signed"
	lockSuffix   = ".lock"
)

// ErrLost is returned by OpenKey when a key that was used before is gone.
var ErrLost = errors.New("the signing key is lost")

// ErrNoKey is returned by OpenKey when there is no key, and none is to be made.
var ErrNoKey = errors.New("there is no signing key")

// Key is a signer: a private key in a file, and its files beside it.
type Key struct {
	Path   string
	signer note.Signer
}

// Lock keeps other processes and goroutines from changing the files of the key at path.
// OpenKey, Sign and Rotate need it: between what Kept returns and Sign, no other signer may
// sign a larger log.
func Lock(ctx context.Context, path string) (release func(), err error) {
	return durable.Lock(ctx, path+lockSuffix)
}

// OpenKey reads the key of the log with the given origin. A key that does not exist is made
// when create is set, with mode 0600. A key that was used before and is gone is ErrLost:
// Rotate makes another one.
func OpenKey(path, origin string, create bool) (*Key, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		for _, suffix := range []string{publicSuffix, signedSuffix} {
			if _, err := os.Stat(path + suffix); err == nil {
				return nil, fmt.Errorf("%w: %s is not there, and %s is: restore it, or make another one with `pawl log rotate`",
					ErrLost, path, filepath.Base(path)+suffix)
			}
		}
		if !create {
			return nil, fmt.Errorf("%w: %s does not exist", ErrNoKey, path)
		}
		if err := makeKey(path, origin); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		data, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, err
	}
	private := strings.TrimSpace(string(data))
	signer, err := note.NewSigner(private)
	if err != nil {
		return nil, fmt.Errorf("the signing key %s cannot be used: %w", path, err)
	}
	if signer.Name() != origin {
		return nil, fmt.Errorf("the signing key %s is of another log: %s, and this one is %s; `pawl log rotate` makes a key for it",
			path, signer.Name(), origin)
	}
	public, err := publicOf(private)
	if err != nil {
		return nil, fmt.Errorf("the signing key %s cannot be used: %w", path, err)
	}
	return &Key{Path: path, signer: signer}, addPublic(path, public)
}

// publicOf returns the public key of a private key, as note.GenerateKey writes them:
// PRIVATE+KEY+name+hash+data, whose data is the algorithm and the seed.
func publicOf(private string) (string, error) {
	parts := strings.SplitN(private, "+", 5)
	if len(parts) != 5 {
		return "", errors.New("it is no signing key")
	}
	data, err := base64.StdEncoding.DecodeString(parts[4])
	if err != nil || len(data) != 1+ed25519.SeedSize {
		return "", errors.New("it is no Ed25519 key")
	}
	public, ok := ed25519.NewKeyFromSeed(data[1:]).Public().(ed25519.PublicKey)
	if !ok {
		return "", errors.New("it is no Ed25519 key")
	}
	return note.NewEd25519VerifierKey(parts[2], public)
}

// makeKey makes a key. A file that is there is an error that is fs.ErrExist. OpenKey adds
// the public key to the list, so a crash in between leaves a key that works.
func makeKey(path, origin string) error {
	private, _, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return err
	}
	temp, err := durable.Temp(path, private+"\n")
	if err != nil {
		return err
	}
	defer os.Remove(temp)
	if err := os.Link(temp, path); err != nil { // unlike a rename, it replaces no other process's key
		return err
	}
	return durable.SyncDir(filepath.Dir(path))
}

// addPublic adds a public key to the list of the key at path, unless it is there.
func addPublic(path, public string) error {
	keys, err := Public(path)
	if err != nil || slices.Contains(keys, public) {
		return err
	}
	return durable.Replace(path+publicSuffix, strings.Join(append(keys, public), "\n")+"\n")
}

// Rotate replaces the key by a new one for the log with the given origin. The old public key
// stays in the list, so that its checkpoints can still be checked. The checkpoint that was
// signed last stays too, if it is of the same log.
func Rotate(path, origin string) error {
	kept, err := os.ReadFile(path + signedSuffix)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if c, err := Read(string(kept)); len(kept) > 0 && (err != nil || c.Origin != origin) {
		if err := os.Rename(path+signedSuffix, path+signedSuffix+".before"); err != nil {
			return err
		}
	}
	private, public, err := note.GenerateKey(rand.Reader, origin)
	if err != nil {
		return err
	}
	if err := addPublic(path, public); err != nil {
		return err
	}
	return durable.Replace(path, private+"\n")
}

// PublicKeys reads a list of verifier keys, one a line.
func PublicKeys(path string) ([]string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(data)), nil
}

// Public returns the public keys that belong to the key file at path; none if there is no
// list.
func Public(path string) ([]string, error) {
	keys, err := PublicKeys(path + publicSuffix)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return keys, err
}

// Name returns the signer's name for its checkpoint in the database: the key's name and
// hash.
func (k *Key) Name() string { return fmt.Sprintf("%s+%08x", k.signer.Name(), k.signer.KeyHash()) }

// Kept returns the highest checkpoint that this signer has signed; found is false if it has
// signed none.
func (k *Key) Kept() (c Checkpoint, found bool, err error) {
	path := k.Path + signedSuffix
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, false, nil
	}
	if err != nil {
		return c, false, err
	}
	keys, err := Public(k.Path)
	if err != nil {
		return c, false, err
	}
	if c, err = Open(string(data), keys); err != nil {
		if other, failed := Read(string(data)); failed == nil && other.Origin != k.signer.Name() {
			err = nil
			c = other
		}
	}
	switch {
	case err != nil:
		return c, false, fmt.Errorf("the checkpoint file %s is damaged: %w", path, err)
	case c.Origin != k.signer.Name():
		return c, false, fmt.Errorf("the checkpoint file %s is of another database: its log is %s, and this one is %s", path, c.Origin,
			k.signer.Name())
	}
	return c, true, nil
}

// Sign signs a checkpoint and keeps it as the signer's highest. The caller has checked that
// it is consistent with the one that was kept.
func (k *Key) Sign(c Checkpoint) (string, error) {
	text, err := note.Sign(&note.Note{Text: c.String()}, k.signer)
	if err != nil {
		return "", err
	}
	return string(text), durable.Replace(k.Path+signedSuffix, string(text))
}

// KeptText returns the highest checkpoint that this signer has signed, as it was signed.
func (k *Key) KeptText() (string, error) {
	data, err := os.ReadFile(k.Path + signedSuffix)
	return string(data), err
}

// ReadKept returns the checkpoint that is kept beside the key file at path; "" if there is
// none.
func ReadKept(path string) string {
	data, err := os.ReadFile(path + signedSuffix)
	if err != nil {
		return ""
	}
	return string(data)
}
