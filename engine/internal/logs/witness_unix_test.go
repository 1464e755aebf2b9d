//go:build unix

package logs_test

import (
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/translog"
)

// witnessTools compiles the witness of filippo.io/torchwood, and what tells it of logs.
var witnessTools = sync.OnceValues(func() (string, error) {
	dir, err := filepath.Abs("../../../.work/witness") // git ignores it
	if err != nil {
		return "", err
	}
	out, err := exec.Command("go", "build", "-modfile=../../../tools.mod", "-o", dir+"/", "filippo.io/torchwood/cmd/litewitness",
		"filippo.io/torchwood/cmd/witnessctl").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, out)
	}
	return dir, err
})

// litewitness is a running witness.
type litewitness struct {
	t     *testing.T
	tools string
	db    string
	key   string // its verifier key
	url   string
}

// startWitness runs a witness of a key of its own, which an agent of the test's holds.
func startWitness(t *testing.T) *litewitness {
	t.Helper()
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "w") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	agent, err := net.Listen("unix", filepath.Join(dir, "agent"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = agent.Close() })
	go beAgent(agent, public, private)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	const name = "witness.example/w"
	key := append([]byte{4}, public...)
	sum := sha256.Sum256(append([]byte(name+"\n"), key...))
	w := &litewitness{t: t, tools: need[string](t)(witnessTools()), db: filepath.Join(dir, "db"), url: "http://" + addr,
		key: fmt.Sprintf("%s+%x+%s", name, sum[:4], base64.StdEncoding.EncodeToString(key))}
	hash := sha256.Sum256(public)
	cmd := exec.Command(filepath.Join(w.tools, "litewitness"), "-name", name, "-db", w.db, "-ssh-agent", filepath.Join(dir, "agent"),
		"-listen", addr, "-key", hex.EncodeToString(hash[:]))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		res, err := http.Get(w.url)
		if err == nil {
			_ = res.Body.Close()
			return w
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// knows tells the witness of a log and its key.
func (w *litewitness) knows(origin, public string) {
	w.t.Helper()
	for _, args := range [][]string{{"add-log", "-origin", origin}, {"add-key", "-origin", origin, "-key", public}} {
		if out, err := exec.Command(filepath.Join(w.tools, "witnessctl"), append(args, "-db", w.db)...).CombinedOutput(); err != nil {
			w.t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
}

// beAgent is an agent of ssh with one key.
func beAgent(l net.Listener, public ed25519.PublicKey, private ed25519.PrivateKey) {
	text := func(parts ...[]byte) (out []byte) {
		for _, p := range parts {
			out = append(binary.BigEndian.AppendUint32(out, uint32(len(p))), p...)
		}
		return out
	}
	blob := text([]byte("ssh-ed25519"), public)
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer conn.Close()
			for {
				var size uint32
				if binary.Read(conn, binary.BigEndian, &size) != nil {
					return
				}
				request := make([]byte, size)
				if _, err := io.ReadFull(conn, request); err != nil {
					return
				}
				answer := append([]byte{12, 0, 0, 0, 1}, text(blob, []byte("test"))...)
				if request[0] == 13 { // sign: the key, the text, flags
					signed := request[1+4+len(blob)+4 : len(request)-4]
					answer = append([]byte{14}, text(text([]byte("ssh-ed25519"), ed25519.Sign(private, signed)))...)
				}
				_, _ = conn.Write(text(answer))
			}
		}()
	}
}

// originOf returns the name of the log that a checkpoint is of.
func originOf(note string) string {
	origin, _, _ := strings.Cut(note, "\n")
	return origin
}

// eachWitnessed runs a test on every database, with a key and a witness that does not know the log yet.
func eachWitnessed(t *testing.T, fn func(t *testing.T, c *logged, w *litewitness)) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			w, o := startWitness(t), withKey(t)
			o.TransparencyLog.Witnesses = []engine.LogWitness{{Key: w.key, URL: w.url}}
			fn(t, &logged{scene: &scene{T: t, Pawl: pawltest.OpenWith(t, which, o)}, key: o.TransparencyLog.Key}, w)
		})
	}
}

// troubleOf returns the doctor's warning of a witness, as its code and its text.
func troubleOf(t *testing.T, e *engine.Engine) string {
	t.Helper()
	for _, w := range need[[]engine.Warning](t)(e.Warnings(t.Context())) {
		if strings.HasPrefix(w.Code, "witness_") {
			return w.Code + ": " + w.Detail
		}
	}
	return ""
}

// A witness cosigns a log that only grows. A log that was rolled back, and that the owner of its key has signed again with
// other leaves, gets no cosignature: doctor says so, and so does a check that asks for the witness.
func TestAWitnessSeesOneHistory(t *testing.T) {
	eachWitnessed(t, func(t *testing.T, c *logged, w *litewitness) {
		c.someEvents()
		var position int64
		var detail, kept string
		c.read("SELECT position, detail FROM pawl.relay_cursors WHERE sink = 'feed'", &position, &detail)
		c.read("SELECT note FROM pawl.log_checkpoints", &kept)
		c.Engine.Cosign(t.Context())
		if got := troubleOf(t, c.Engine); got != "" {
			t.Errorf("at once: %s", got)
		}
		c.Advance(2 * time.Minute)
		if got := troubleOf(t, c.Engine); !strings.HasPrefix(got, "witness_silent: ") || !strings.Contains(got, "does not know the log") {
			t.Errorf("of a log that it does not know: %s", got)
		}
		w.knows(originOf(kept), c.public())
		trust := &translog.Trust{Witnesses: []string{w.key}}
		c.cosigned(trust, 8)
		var high int64
		c.read("SELECT MAX(id) FROM pawl.task_events", &high)
		c.ok(pawl.Complete(t.Context(), c.Service, c.Claim("a").Fence(), nil))
		c.sign()
		c.cosigned(trust, 10)
		if got := troubleOf(t, c.Engine); got != "" {
			t.Errorf("cosigned: %s", got)
		}
		restarted := c.Another(engine.Options{TransparencyLog: engine.LogOptions{Key: c.key,
			Witnesses: []engine.LogWitness{{Key: w.key, URL: w.url}}}})
		c.ok(c.Create(pawl.NewTask{Type: "c"}), nil)
		c.sign()
		c.ok(c.Create(pawl.NewTask{Type: "c"}), nil)
		c.ok(nil, restarted.Log(t.Context()))
		c.ok(restarted.SignLog(t.Context()))
		restarted.Cosign(t.Context())
		c.cosigned(trust, 12) // this process has signed fewer leaves: no trouble
		if got := troubleOf(t, c.Engine); got != "" {
			t.Errorf("cosigned by another process: %s", got)
		}

		c.around("task_events", fmt.Sprintf("UPDATE pawl.task_events SET actor = 0 WHERE id > %d", high),
			"DELETE FROM pawl.log_runs WHERE first >= 8", "DELETE FROM pawl.feed_pages WHERE page > 8",
			"DELETE FROM pawl.log_checkpoints",
			fmt.Sprintf("UPDATE pawl.relay_cursors SET position = %d, detail = '%s' WHERE sink = 'feed'", position, detail))
		c.ok(nil, os.Remove(c.key+".signed"))
		for _, want := range []string{"more than it has", "another history"} { // fewer leaves than the witness has seen, and more
			c.ok(c.Engine.SignLog(t.Context()))
			c.Engine.Cosign(t.Context())
			if got := troubleOf(t, c.Engine); !strings.HasPrefix(got, "witness_refused: ") || !strings.Contains(got, want) {
				t.Errorf("rewritten: %q, want %s", got, want)
			}
			c.ok(c.Create(pawl.NewTask{Type: "c"}), nil)
			c.ok(nil, c.Engine.Log(t.Context()))
		}
		if got := c.verifyAll(); !got.Intact {
			t.Errorf("without a witness nothing is seen: %+v", got.Faults)
		}
		got, err := c.Engine.VerifyLog(t.Context(), -1, trust)
		if err != nil || got.Intact || !strings.Contains(got.Faults[0].Found, "witnesses") {
			t.Errorf("with the witness: %+v, %v", got, err)
		}
	})
}

// cosigned asks the witnesses, and expects that the newest checkpoint, of so many leaves, is cosigned.
func (c *logged) cosigned(trust *translog.Trust, size int64) {
	c.Helper()
	c.Engine.Cosign(c.Context())
	got, err := c.Engine.LogCheckpoint(c.Context())
	c.ok(nil, err)
	if n := len(trust.Cosignatures(got.Note)); got.Size != size || n != 1 {
		c.Errorf("%d cosignatures, want one of %d leaves:\n%s", n, size, got.Note)
	}
	v, err := c.Engine.VerifyTask(c.Context(), c.task.ID, trust)
	if err != nil || !v.Intact || v.Signed != v.Events || v.Checkpoint.Size != size {
		c.Errorf("verified with the witness: %+v, %v", v, err)
	}
}

// The receipt of an effect has a checkpoint that a witness has cosigned, if one has all of its events.
func TestAReceiptIsCosigned(t *testing.T) {
	eachWitnessed(t, func(t *testing.T, c *logged, w *litewitness) {
		effects := c.paid()
		w.knows(originOf(c.sign()), c.public())
		receipts := func() (cosigned int) {
			for _, id := range effects {
				r, err := c.Engine.EffectReceipt(t.Context(), id)
				c.ok(r, err)
				trust := translog.Trust{Keys: strings.Fields(c.public()), Witnesses: []string{w.key}}
				_, _, err = translog.VerifyReceipt(need[[]byte](t)(json.Marshal(r)), trust)
				if err == nil {
					cosigned++
				}
				trust.Witnesses = nil
				if _, _, err := translog.VerifyReceipt(need[[]byte](t)(json.Marshal(r)), trust); err != nil {
					t.Error(err)
				}
			}
			return cosigned
		}
		if n := receipts(); n != 0 {
			t.Errorf("%d receipts are cosigned before the witness was asked", n)
		}
		c.Engine.Cosign(t.Context())
		c.ok(c.Create(pawl.NewTask{Type: "c"}), nil)
		c.sign()
		if n := receipts(); n != len(effects) {
			t.Errorf("%d of %d receipts are cosigned", n, len(effects))
		}
	})
}

// An archive, and a segment, have a checkpoint that a witness has cosigned, if one has all of their events.
func TestAnArchiveIsCosigned(t *testing.T) {
	eachWitnessed(t, func(t *testing.T, c *logged, w *litewitness) {
		trust := func() translog.Trust {
			return translog.Trust{Keys: strings.Fields(c.public()), Witnesses: []string{w.key}}
		}
		for _, cosigned := range []bool{false, true} {
			for _, n := range []int{1, 3} { // an archive of its own, a segment
				for range n {
					c.task = c.Create(pawl.NewTask{Type: "a"})
					c.Complete(c.Claim("a"), `{"r":1}`)
				}
				note := c.sign()
				if cosigned && n == 1 {
					w.knows(originOf(note), c.public())
				}
				c.Engine.Cosign(t.Context())
				c.ok(c.Create(pawl.NewTask{Type: "c"}), nil)
				c.sign() // not cosigned yet
				var file string
				if n == 1 {
					file = c.archiveOf()
				} else {
					c.Advance(31 * 24 * time.Hour)
					c.ok(c.Service.Sweep(t.Context()))
					file = c.segmentFile(c.task.ID)
				}
				got, err := engine.VerifyArchiveWith(file, trust())
				if err != nil || got.Intact != cosigned || (got.Proved == got.Events) != cosigned {
					t.Errorf("of %d with the witness: %+v, %v", n, got, err)
				}
				if got, err := engine.VerifyArchive(file, trust().Keys); err != nil || !got.Intact || got.Proved != got.Events {
					t.Errorf("of %d without: %+v, %v", n, got, err)
				}
				none := translog.Trust{Keys: trust().Keys, Witnesses: []string{"x"}}
				if _, err := engine.VerifyArchiveWith(file, none); pawl.CodeOf(err) != pawl.CodeInvalid {
					t.Errorf("with a key that is none: %v", err)
				}
			}
		}
	})
}

// A fork of the log is a new log to a witness, which is told of it.
func TestAForkIsANewLogToAWitness(t *testing.T) {
	eachWitnessed(t, func(t *testing.T, c *logged, w *litewitness) {
		c.someEvents()
		note := c.sign()
		w.knows(originOf(note), c.public())
		trust := &translog.Trust{Witnesses: []string{w.key}}
		c.cosigned(trust, 8)
		c.ok(nil, c.Engine.BeginLog(t.Context(), 8))
		note = c.sign()
		c.Engine.Cosign(t.Context())
		c.Advance(2 * time.Minute)
		if got := troubleOf(t, c.Engine); !strings.Contains(got, "does not know the log "+originOf(note)) {
			t.Errorf("of the new log: %s", got)
		}
		_, public, _ := strings.Cut(c.public(), "\n")
		w.knows(originOf(note), public)
		c.cosigned(trust, 8)
	})
}

// A witness that hangs, or lies, stops neither signing nor work, and the receipt of an effect needs none.
func TestAWitnessThatHangsStopsNothing(t *testing.T) {
	t.Parallel()
	for _, which := range pawltest.Databases {
		t.Run(string(which), func(t *testing.T) {
			t.Parallel()
			asked, over := make(chan struct{}, 100), make(chan struct{})
			s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{}; <-over }))
			t.Cleanup(s.Close)
			t.Cleanup(func() { close(over) })
			key := append([]byte{4}, make([]byte, ed25519.PublicKeySize)...)
			sum := sha256.Sum256(append([]byte("w\n"), key...))
			o := withKey(t)
			o.TransparencyLog.Witnesses = []engine.LogWitness{{URL: s.URL,
				Key: fmt.Sprintf("w+%x+%s", sum[:4], base64.StdEncoding.EncodeToString(key))}}
			p := pawltest.OpenWith(t, which, o)
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- p.Engine.Run(ctx) }()
			for size := int64(1); size <= 2; size++ {
				need[pawl.Task](t)(pawl.Create(ctx, p.Service, pawl.NewTask{Type: "a"}))
				for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
					if c, err := p.Engine.LogCheckpoint(ctx); err == nil && c.Size >= size {
						break
					}
					if time.Now().After(end) {
						t.Fatal("nothing is signed")
					}
				}
				if size == 1 {
					<-asked
				}
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
