package translog

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// Of C2SP tlog-cosignature, version 1.
const (
	cosignAlgorithm = 4 // the first byte of a witness's public key
	cosignatureSize = 8 + ed25519.SignatureSize
)

// witnessKey verifies the cosignatures of a witness; it is a note.Verifier.
type witnessKey struct {
	name string
	hash uint32
	key  ed25519.PublicKey
}

func (k witnessKey) Name() string    { return k.name }
func (k witnessKey) KeyHash() uint32 { return k.hash }

// Verify reports whether a signature, which begins with the time in seconds, is of the text.
func (k witnessKey) Verify(text, signature []byte) bool {
	if len(signature) != cosignatureSize {
		return false
	}
	signed := fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", binary.BigEndian.Uint64(signature), text)
	return ed25519.Verify(k.key, signed, signature[8:])
}

// readWitnessKey reads the verifier key of a witness: its name, the hash of the key, and the key.
func readWitnessKey(text string) (witnessKey, error) {
	parts := strings.SplitN(text, "+", 3)
	if len(parts) != 3 || parts[0] == "" || strings.ContainsAny(parts[0], " \t\r\n") {
		return witnessKey{}, errors.New("it is not NAME+HASH+KEY")
	}
	key, err := base64.StdEncoding.DecodeString(parts[2])
	if err != nil || len(key) != 1+ed25519.PublicKeySize || key[0] != cosignAlgorithm {
		return witnessKey{}, errors.New("it is not a key for cosignatures (Ed25519, algorithm 4)")
	}
	sum := sha256.Sum256(append([]byte(parts[0]+"\n"), key...))
	hash := binary.BigEndian.Uint32(sum[:])
	if parts[1] != fmt.Sprintf("%08x", hash) {
		return witnessKey{}, errors.New("its hash is not that of the name and the key")
	}
	return witnessKey{name: parts[0], hash: hash, key: key[1:]}, nil
}

// Trust says whose signatures a checkpoint needs.
type Trust struct {
	Keys      []string // verifier keys of the log, of which one must have signed
	Witnesses []string // verifier keys of witnesses
	Quorum    int      // how many of them must have cosigned; 0 = all
}

// Check returns the trust with each key once. A key that cannot be used is an error, and so is a quorum that cannot be met.
func (t Trust) Check() (Trust, error) {
	var err error
	if len(t.Keys) > 0 {
		t.Keys, err = Verifiers(t.Keys)
	}
	witnesses := map[string]bool{}
	var list []string
	for _, k := range strings.Fields(strings.Join(t.Witnesses, "\n")) {
		if _, bad := readWitnessKey(k); bad != nil && err == nil {
			err = fmt.Errorf("the witness's key %q cannot be used: %w", k, bad)
		}
		if !witnesses[k] {
			witnesses[k] = true
			list = append(list, k)
		}
	}
	if t.Witnesses = list; err == nil && (t.Quorum < 0 || t.Quorum > len(list)) {
		err = fmt.Errorf("a quorum of %d of %d witnesses cannot be met", t.Quorum, len(list))
	}
	return t, err
}

// Cosignature is what a witness has said of a checkpoint: that it continues all that it cosigned before.
type Cosignature struct {
	Witness string
	At      time.Time
}

// Cosignatures returns the valid cosignatures of a signed checkpoint by the witnesses. Each counts once.
func (t Trust) Cosignatures(text string) (list []Cosignature) {
	for _, k := range t.Witnesses {
		w, err := readWitnessKey(k)
		if err != nil {
			continue
		}
		n, err := note.Open([]byte(text), note.VerifierList(w))
		if err != nil {
			continue
		}
		b, _ := base64.StdEncoding.DecodeString(n.Sigs[0].Base64)
		list = append(list, Cosignature{w.name, time.Unix(int64(binary.BigEndian.Uint64(b[4:])), 0).UTC()})
	}
	return list
}

// Open reads a signed checkpoint. One of the keys must have signed it, and a quorum of the witnesses.
func (t Trust) Open(text string) (Checkpoint, error) {
	c, err := Open(text, t.Keys)
	if err != nil || len(t.Witnesses) == 0 {
		return c, err
	}
	need := t.Quorum
	if need == 0 {
		need = len(t.Witnesses)
	}
	if n := len(t.Cosignatures(text)); n < need || t.Quorum < 0 {
		return c, fmt.Errorf("%d of %d witnesses have cosigned the checkpoint, and %d must have", n, len(t.Witnesses), need)
	}
	return c, nil
}

// Bounds of one call of a witness.
const (
	witnessTimeout = 5 * time.Second
	maxCosigned    = 16 << 10 // bytes of its answer
	witnessTries   = 3        // with the size that it names
)

// HistoryError says that a witness has seen another history of the log than the one it is shown.
type HistoryError struct {
	Ahead int64 // so many leaves, which are more than the checkpoint has; 0 = others
}

// Error says it in words.
func (e *HistoryError) Error() string {
	if e.Ahead > 0 {
		return fmt.Sprintf("the witness has seen %d leaves of this log, more than it has", e.Ahead)
	}
	return "the witness has seen another history of this log"
}

// Witness is a witness of logs (C2SP tlog-witness), which cosigns the checkpoints of a log as long as the log only grows.
type Witness struct {
	witnessKey
	text   string
	url    string
	client http.Client
}

// NewWitness returns the witness with a verifier key. Its address is the https URL before /add-checkpoint; http is for
// this machine alone. Errors do not name the address, which may have a password.
func NewWitness(key, address string) (*Witness, error) {
	k, err := readWitnessKey(key)
	if err != nil {
		return nil, fmt.Errorf("the witness's key %q cannot be used: %w", key, err)
	}
	to, err := url.Parse(address)
	if err != nil || to.Host == "" || to.Scheme != "https" && (to.Scheme != "http" || !thisMachine(to.Hostname())) {
		return nil, fmt.Errorf("the address of the witness %s must be an https URL; http is for this machine alone", k.name)
	}
	w := &Witness{witnessKey: k, text: key, url: strings.TrimSuffix(address, "/") + "/add-checkpoint"}
	w.client = http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return w, nil
}

func thisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ID identifies the witness: its name and the hash of its key.
func (w *Witness) ID() string { return fmt.Sprintf("%s+%08x", w.name, w.hash) }

// Key returns the verifier key of the witness.
func (w *Witness) Key() string { return w.text }

// Cosign asks for the cosignature of a signed checkpoint and returns its line, which is verified. known is how many leaves
// the witness had seen, as far as the caller knows; the witness corrects that, and it is returned. prove proves that the
// checkpoint continues the log of a size. An error is a HistoryError, one of prove, or says that the
// witness does not do as it should.
func (w *Witness) Cosign(
	ctx context.Context,
	text string,
	known int64,
	prove func(from int64) (tlog.TreeProof, error),
) (line string, size int64, err error) {
	c, err := Read(text)
	if err != nil {
		return "", known, err
	}
	ctx, cancel := context.WithTimeout(ctx, witnessTimeout)
	defer cancel()
	known = min(known, c.Size)
	for range witnessTries {
		var proof tlog.TreeProof
		if known > 0 {
			if proof, err = prove(known); err != nil {
				return "", known, err
			}
		}
		status, answer, err := w.post(ctx, known, proof, text)
		switch {
		case err != nil:
			return "", known, err
		case status == http.StatusOK:
			line, err := w.lineOf(text, answer)
			return line, c.Size, err
		case status == http.StatusUnprocessableEntity:
			return "", known, &HistoryError{}
		case status != http.StatusConflict:
			return "", known, refusal(status, c.Origin)
		}
		has, err := strconv.ParseInt(strings.TrimSuffix(string(answer), "\n"), 10, 64)
		switch {
		case err != nil || has < 0:
			return "", known, errors.New("the witness answered with no size")
		case has > c.Size:
			return "", known, &HistoryError{has}
		case has == known && known == c.Size: // it has another root at this size
			return "", known, &HistoryError{}
		}
		known = has
	}
	return "", known, errors.New("the witness refuses the sizes that it names")
}

func refusal(status int, origin string) error {
	switch status {
	case http.StatusNotFound:
		return fmt.Errorf("the witness does not know the log %s: give it the name and the public key of the log", origin)
	case http.StatusForbidden:
		return fmt.Errorf("the witness does not know the key that has signed the log %s: give it the public key", origin)
	}
	return fmt.Errorf("the witness answered with status %d", status)
}

func (w *Witness) post(ctx context.Context, known int64, proof tlog.TreeProof, text string) (int, []byte, error) {
	body := fmt.Appendf(nil, "old %d\n", known)
	for _, h := range proof {
		body = fmt.Appendln(body, h)
	}
	body = fmt.Appendf(body, "\n%s", text)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, errors.New("the address of the witness is not a URL")
	}
	req.Header.Set("Content-Type", "text/plain; charset=utf-8")
	res, err := w.client.Do(req)
	if err != nil {
		return 0, nil, errors.New("the witness does not answer")
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxCosigned))
	if err != nil {
		return 0, nil, errors.New("the witness does not answer in full")
	}
	return res.StatusCode, answer, nil
}

// lineOf returns the witness's own signature of an answer, which may have others.
func (w *Witness) lineOf(text string, answer []byte) (string, error) {
	body, _, _ := strings.Cut(text, "\n\n")
	n, err := note.Open(fmt.Appendf(nil, "%s\n\n%s", body, answer), note.VerifierList(w))
	if err != nil {
		return "", errors.New("the witness answered with no signature of its key for this checkpoint")
	}
	return fmt.Sprintf("— %s %s\n", n.Sigs[0].Name, n.Sigs[0].Base64), nil
}
