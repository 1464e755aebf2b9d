package translog_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl/translog"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

// someone is a witness of the test's own: its verifier key, and what cosigns.
func someone(t *testing.T, name string) (vkey string, cosign func(text string) string) {
	t.Helper()
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key := append([]byte{4}, public...)
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	return fmt.Sprintf("%s+%x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(key)), func(text string) string {
		body, _, _ := strings.Cut(text, "\n\n")
		at := uint64(1_700_000_000)
		signature := binary.BigEndian.AppendUint64(sum[:4:4], at)
		signature = append(signature, ed25519.Sign(private, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s\n", at, body))...)
		return fmt.Sprintf("— %s %s\n", name, base64.StdEncoding.EncodeToString(signature))
	}
}

// signedAt returns a signed checkpoint and the key of its log.
func signedAt(t *testing.T, size int64) (text, vkey string) {
	t.Helper()
	private, public, err := note.GenerateKey(rand.Reader, "pawl/1")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := note.NewSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := note.Sign(&note.Note{Text: translog.Checkpoint{Origin: "pawl/1", Size: size}.String()}, signer)
	if err != nil {
		t.Fatal(err)
	}
	return string(signed), public
}

// A checkpoint counts when as many witnesses have cosigned it as the quorum says. Signatures of others are no hindrance.
func TestAQuorumOfWitnesses(t *testing.T) {
	text, key := signedAt(t, 10)
	a, cosignA := someone(t, "a.example")
	b, cosignB := someone(t, "b.example/w")
	_, cosignC := someone(t, "c.example")
	other, _ := signedAt(t, 11)
	both := text + cosignC(text) + cosignA(text) + cosignB(text)
	for _, x := range []struct {
		text   string
		quorum int
		good   bool
	}{
		{both, 0, true}, {both, 2, true}, {text + cosignB(text), 1, true}, {text + cosignB(text), 0, false}, {text, 1, false},
		{text + cosignA(other), 1, false}, {text + cosignA(text) + cosignA(text), 2, false}, {text + cosignC(text), 1, false},
	} {
		trust := translog.Trust{Keys: []string{key}, Witnesses: []string{a, b}, Quorum: x.quorum}
		if c, err := trust.Open(x.text); (err == nil) != x.good || err == nil && c.Size != 10 {
			t.Errorf("quorum %d of\n%s: %+v, %v", x.quorum, x.text, c, err)
		}
	}
	if got := (translog.Trust{Witnesses: []string{b}}).Cosignatures(both); len(got) != 1 || got[0].Witness != "b.example/w" ||
		!got[0].At.Equal(time.Unix(1_700_000_000, 0)) {
		t.Errorf("cosigned by %+v", got)
	}
	if c, err := translog.Open(both, []string{key}); err != nil || c.Size != 10 {
		t.Errorf("without witnesses: %v", err)
	}
	for _, bad := range []translog.Trust{{Witnesses: []string{key}}, {Witnesses: []string{a, a}, Quorum: 2}, {Quorum: 1},
		{Witnesses: []string{strings.Replace(a, "a.", "b.", 1)}}, {Witnesses: []string{a}, Quorum: -1}} {
		if _, err := bad.Check(); err == nil {
			t.Errorf("%+v can be used", bad)
		}
	}
}

// What a witness answers is believed only where it proves it. It is asked a bounded number of times.
func TestWhatWitnessesAnswer(t *testing.T) {
	text, _ := signedAt(t, 10)
	vkey, cosign := someone(t, "w.example")
	_, forged := someone(t, "w.example")
	other, _ := signedAt(t, 11)
	const behind, history = "more than it has", "another history"
	for name, x := range map[string]struct {
		status int
		answer string
		want   string // "" = cosigned
		calls  int
	}{
		"cosigned":        {200, cosign(text), "", 1},
		"with others":     {200, forged(text) + "— x AAAAAAA=\n" + cosign(text), "", 1},
		"another key":     {200, forged(text), "no signature of its key", 1},
		"another text":    {200, cosign(other), "no signature of its key", 1},
		"nothing":         {200, "", "no signature of its key", 1},
		"too much":        {200, strings.Repeat(forged(text), 500) + cosign(text), "no signature of its key", 1},
		"ahead":           {409, "12\n", behind, 1},
		"same size":       {409, "10\n", history, 2},
		"always another":  {409, "3\n", "refuses the sizes that it names", 3},
		"no size":         {409, "-1\n", "no size", 1},
		"no number":       {409, "<html>", "no size", 1},
		"another history": {422, "", history, 1},
		"unknown log":     {404, "", "does not know the log pawl/1", 1},
		"unknown key":     {403, "", "does not know the key", 1},
		"redirect":        {302, "", "status 302", 1},
		"broken":          {500, "", "status 500", 1},
	} {
		calls := 0
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			calls++
			body, _ := io.ReadAll(r.Body)
			if head := map[bool]string{true: "old 0\n\n", false: "old "}[calls == 1]; !strings.HasPrefix(string(body), head) ||
				!strings.HasSuffix(string(body), "\n\n"+text) || r.URL.Path != "/w/add-checkpoint" {
				t.Errorf("%s: asked %s %q", name, r.URL.Path, body)
			}
			w.Header().Set("Location", "/elsewhere")
			w.WriteHeader(x.status)
			_, _ = io.WriteString(w, x.answer)
		}))
		w, err := translog.NewWitness(vkey, s.URL+"/w/")
		if err != nil {
			t.Fatal(err)
		}
		line, _, err := w.Cosign(t.Context(), text, 0, func(int64) (tlog.TreeProof, error) { return nil, nil })
		s.Close()
		if calls != x.calls || (err == nil) != (x.want == "") || err == nil && line != cosign(text) {
			t.Errorf("%s: %d calls, %q, %v", name, calls, line, err)
		}
		var other *translog.HistoryError
		if err != nil && (!strings.Contains(err.Error(), x.want) || errors.As(err, &other) != (x.want == behind || x.want == history)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A witness that hangs is left at the end of the context; errors do not name its address.
func TestAWitnessThatHangs(t *testing.T) {
	text, _ := signedAt(t, 10)
	vkey, _ := someone(t, "w.example")
	over := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-over }))
	defer s.Close()
	defer close(over)
	w, err := translog.NewWitness(vkey, strings.Replace(s.URL, "//", "//user:secret@", 1))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer stop()
	if _, _, err := w.Cosign(ctx, text, 0, nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("it hangs: %v", err)
	}
	for _, address := range []string{
		"", "host.example", "http://host.example/", "ftp://localhost", "http://localhost@host.example/", "http://10.0.0.1",
	} {
		if _, err := translog.NewWitness(vkey, address); err == nil || address != "" && strings.Contains(err.Error(), address) {
			t.Errorf("%q: %v", address, err)
		}
	}
}
