//go:build unix

package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

// unit reads contrib/pawl.service.
func unit(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for line := range strings.Lines(read(t, "../../contrib/pawl.service")) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == '[' {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if _, twice := out[name]; !ok || twice {
			t.Errorf("the unit says %q", line)
		}
		out[name] = value
	}
	return out
}

// container reads the Containerfile: its instructions, and the arguments of
// `pawl` in its comments.
func container(t *testing.T) (says map[string][]string, commented [][]string) {
	t.Helper()
	says = map[string][]string{}
	for line := range strings.Lines(read(t, "../../Containerfile")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, args, ok := strings.Cut(rest, " pawl serve"); word == "#" && ok {
			commented = append(commented, strings.Fields("serve"+args))
		}
		says[word] = append(says[word], rest)
	}
	return says, commented
}

// configured returns the settings that the program reads from a command line and an environment.
func configured(t *testing.T, args []string, env ...string) cli.Config {
	t.Helper()
	a := &cli.App{Env: env, Stderr: io.Discard}
	cmd, rest, err := root(a).Find(args)
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil && cmd.Args != nil {
		err = cmd.Args(cmd, cmd.Flags().Args())
	}
	if err == nil {
		err = a.Configure(cmd)
	}
	if err != nil || cmd.Name() != "serve" {
		t.Errorf("%v with %v: %v", args, env, err)
	}
	return a.Config
}

// The files of a deployment match the program: commands, flags, settings, the port, the place of
// the data, and the time that a stop may take.
func TestDeploymentsFitTheProgram(t *testing.T) {
	port := cli.Defaults().Serve.Addr[strings.LastIndexByte(cli.Defaults().Serve.Addr, ':')+1:]
	u := unit(t)
	if cfg := configured(t, strings.Fields(u["ExecStart"])[1:],
		u["Environment"]); cfg.DB != "sqlite:/var/lib/"+u["StateDirectory"]+"/pawl.db" {
		t.Errorf("the unit keeps its data at %s, and may write to %s", cfg.DB, u["StateDirectory"])
	}
	if cfg := configured(t, strings.Fields(u["ExecStart"])[1:], "PAWL_DB=postgres://db/work"); cfg.DB != "postgres://db/work" {
		t.Errorf("the unit's environment file cannot name another database than %s", cfg.DB)
	}
	if limit, err := time.ParseDuration(u["TimeoutStopSec"] + "s"); err != nil || limit <= pawl.DefaultStopGrace ||
		u["KillSignal"] != "SIGTERM" {
		t.Errorf("the unit gives %s after %s", u["TimeoutStopSec"], u["KillSignal"])
	}
	if u["Restart"] != "always" || u["StartLimitIntervalSec"] != "0" || u["RuntimeDirectory"] != "pawl" {
		t.Error("the unit gives up while its database is away, or has no directory for a socket")
	}
	if u["WorkingDirectory"] != "/etc/"+u["ConfigurationDirectory"] {
		t.Errorf("the unit runs in %s, its settings are in /etc/%s", u["WorkingDirectory"], u["ConfigurationDirectory"])
	}

	says, commented := container(t)
	cmd := strings.Fields(strings.NewReplacer("[", "", "]", "", `"`, "", ",", " ").Replace(says["CMD"][0]))
	if cfg := configured(t, cmd, says["ENV"]...); cfg.DB != "sqlite:"+says["VOLUME"][0]+"/pawl.db" {
		t.Errorf("the container keeps its data at %s, its volume is %v", cfg.DB, says["VOLUME"])
	}
	if says["EXPOSE"][0] != port || says["STOPSIGNAL"][0] != u["KillSignal"] || says["WORKDIR"][1] != says["VOLUME"][0] {
		t.Errorf("the container says %v", says)
	}
	if !slices.Contains(says["COPY"], "--from=build /image /") || !strings.Contains(strings.Join(says["RUN"], " "), "chmod 1777 /image/tmp") {
		t.Error("the container has no directory for temporary files")
	}
	if len(commented) != 1 {
		t.Fatalf("its comments run %v", commented)
	}
	if cfg := configured(t, commented[0], says["ENV"]...); !strings.HasSuffix(cfg.Serve.Addr, ":"+port) ||
		!strings.Contains(says["#"][1], "-p "+port+":"+port) {
		t.Errorf("its comment serves %s", cfg.Serve.Addr)
	}
	version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindStringSubmatch(read(t, "../../go.mod"))
	if !slices.Contains(says["FROM"], "golang:"+version[1]+" AS build") {
		t.Errorf("go.mod says %s, the container is built from %v", version[1], says["FROM"])
	}
}

// The unit's command serves with only its environment and its two directories, makes its data
// unreadable for other users, and ends with 0 on SIGTERM.
func TestTheUnitsCommandServes(t *testing.T) {
	u := unit(t)
	etc, lib := t.TempDir(), t.TempDir()
	moved := strings.NewReplacer("/var/lib/pawl", lib, "/usr/local/bin/", "")
	line := strings.Fields(moved.Replace(u["ExecStart"]))
	cmd := exec.Command(line[0], append(line[1:], "--addr", "127.0.0.1:0")...)
	cmd.Dir, cmd.Env = etc, []string{moved.Replace(u["Environment"])}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	before := syscall.Umask(0o077)
	err = cmd.Start()
	syscall.Umask(before)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	log := bufio.NewScanner(stderr)
	url := ""
	for url == "" && log.Scan() {
		if m := regexp.MustCompile(`msg=serving url=(\S+)`).FindStringSubmatch(log.Text()); m != nil {
			url = m[1]
		}
	}
	res, err := http.Get(url + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	if _ = res.Body.Close(); res.StatusCode != http.StatusOK {
		t.Errorf("readyz answers %s", res.Status)
	}
	if info, err := os.Stat(filepath.Join(lib, "pawl.db")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the database: %v, %v", info, err)
	}
	if left, err := os.ReadDir(etc); err != nil || len(left) != 0 {
		t.Errorf("it wrote into its settings: %v, %v", left, err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_, _ = io.Copy(io.Discard, stderr)
	if err := cmd.Wait(); err != nil {
		t.Errorf("stopped: %v", err)
	}
}
