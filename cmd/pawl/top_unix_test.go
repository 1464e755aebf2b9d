//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pawl-work/pawl/internal/testterm"
)

// In a terminal of its own, `pawl top` shows what changes, on the database and from a server, and
// follows the size of the terminal. When it is quit, or ended by a signal, it restores the screen.
func TestTop(t *testing.T) {
	bin, err := exec.LookPath("pawl")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	pawl := func(args ...string) string {
		t.Helper()
		cmd := exec.Command(bin, args...)
		cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("pawl %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	pawl("task", "create", "--type", "ocr", "--payload", "1")
	server := serving(t, bin, []string{"--db", "sqlite:" + filepath.Join(dir, "pawl.db")})
	for name, c := range map[string]struct {
		args   []string
		env    string
		typ    string
		end    func(term *testterm.Terminal, p *os.Process) error
		colour bool
	}{
		"database": {nil, "NO_COLOR=", "one", func(term *testterm.Terminal, _ *os.Process) error { term.Type("q"); return nil }, true},
		"server": {[]string{"--server", server.url, "--sort", "type"}, "NO_COLOR=1", "two",
			func(_ *testterm.Terminal, p *os.Process) error { return p.Signal(syscall.SIGTERM) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			term := testterm.Open(t, 150, 40)
			cmd := exec.Command(bin, append([]string{"top", "--interval", "200ms"}, c.args...)...)
			cmd.Dir, cmd.Env = dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir, "TERM=xterm-256color", c.env}
			cmd.Stdin, cmd.Stdout, cmd.Stderr = term.TTY, term.TTY, term.TTY
			cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill() }) // if it has not ended
			screen := term.UntilShows("no_worker")
			for _, want := range []string{"ocr", "namespace default of", "pawl worker --type ocr"} {
				if !strings.Contains(screen, want) {
					t.Errorf("%q is not on the screen:\n%s", want, screen)
				}
			}
			if strings.Contains(term.Raw(), "\x1b[31m") != c.colour {
				t.Errorf("colour: want %t", c.colour)
			}
			pawl("task", "create", "--type", c.typ, "--payload", "1")
			term.UntilShows("\n" + c.typ)
			pawl("item", "claim", "--worker", "me", "--type", c.typ)
			term.UntilShows("me ")
			term.Resize(70, 15)
			term.Until("a smaller screen", func(screen string) bool {
				lines := strings.Split(strings.TrimRight(screen, "\n"), "\n")
				return len(lines) == 15 && strings.HasPrefix(lines[14], "q quit") && strings.HasPrefix(lines[0], "pawl top")
			})
			if err := c.end(term, cmd.Process); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("it ended with %v", err)
			}
			term.Until("the screen before it", func(screen string) bool {
				_, alternate := term.Screen()
				return !alternate && strings.TrimSpace(screen) == "" && !term.CursorHidden()
			})
		})
	}
}
