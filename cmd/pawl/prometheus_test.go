//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// child starts a program that is killed at the end of the test. It returns the file of its output.
func child(t *testing.T, name string, args ...string) (*exec.Cmd, string) {
	t.Helper()
	cmd, output := exec.Command(name, args...), filepath.Join(t.TempDir(), "output")
	file, err := os.Create(output)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // killed
	})
	return cmd, output
}

// prometheusOf starts Prometheus with the alert rules, which here judge seconds instead of minutes,
// and one more: Completed. It returns a function that waits until an alert of the type demo fires,
// or no longer does.
func prometheusOf(t *testing.T, target string) (alert func(name string, fires bool)) {
	t.Helper()
	program, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("prometheus is missing: install Debian's package prometheus")
	}
	dir := t.TempDir()
	rules := read(t, "../../deploy/prometheus/rules.yml")
	rules = regexp.MustCompile(`for: \d+m`).ReplaceAllString(rules, "for: 1s")
	rules = regexp.MustCompile(`\[\d+m\]`).ReplaceAllString(rules, "[5s]") +
		"\n      - alert: Completed\n        expr: pawl_events_total{event=\"completed\"} == 1\n"
	config := fmt.Sprintf(`global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
rule_files: [rules.yml]
scrape_configs:
  - job_name: pawl
    static_configs: [{targets: [%q]}]
`, strings.TrimPrefix(target, "http://"))
	for name, text := range map[string]string{"rules.yml": rules, "prometheus.yml": config} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := free.Addr().String()
	_ = free.Close()
	_, output := child(t, program, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--web.listen-address="+addr,
		"--storage.tsdb.path="+filepath.Join(dir, "data"))
	return func(name string, fires bool) {
		t.Helper()
		said := "nothing"
		for began := time.Now(); time.Since(began) < 60*time.Second; time.Sleep(100 * time.Millisecond) {
			firing, err := firingAt(addr)
			if err == nil && firing[name+" demo"] == fires {
				t.Logf("%s firing=%t after %s", name, fires, time.Since(began).Round(time.Millisecond))
				return
			}
			said = fmt.Sprint(firing, err)
		}
		t.Fatalf("%s is not firing=%t: %s\n%s", name, fires, said, read(t, output))
	}
}

// firingAt returns the alerts that fire, as name and type.
func firingAt(addr string) (map[string]bool, error) {
	res, err := http.Get("http://" + addr + "/api/v1/alerts")
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	err = json.NewDecoder(res.Body).Decode(&answer)
	firing := map[string]bool{}
	for _, a := range answer.Data.Alerts {
		if a.State == "firing" {
			firing[a.Labels["alertname"]+" "+a.Labels["type"]] = true
		}
	}
	return firing, err
}

// A real Prometheus scrapes a server. Alerts fire while no worker takes the work and when a worker
// has stalled; they resolve when a worker comes, and when another one has replaced the stalled one.
func TestAlertsFireAndResolve(t *testing.T) {
	t.Parallel()
	pawl, err := exec.LookPath("pawl")
	if err != nil {
		t.Fatal(err)
	}
	server := serving(t, pawl, []string{"--db", "sqlite:" + filepath.Join(t.TempDir(), "pawl.db")})
	alert := prometheusOf(t, server.url)
	create := func() {
		t.Helper()
		if out, err := exec.Command(pawl, "task", "create", "--type", "demo", "--server", server.url).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	work := func(id string, program ...string) *exec.Cmd {
		t.Helper()
		cmd, _ := child(t, pawl, append([]string{"worker", "--server", server.url, "--type", "demo", "--lease", "2", "--id", id,
			"--exec", "--"}, program...)...)
		return cmd
	}
	create()
	alert("PawlNoWorker", true)
	stalled := work("stalled", "sleep", "60")
	alert("PawlNoWorker", false)
	if err := stalled.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	alert("PawlLeaseExpired", true)
	if err := stalled.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	work("replacement", "cat")
	alert("Completed", true)
	alert("PawlLeaseExpired", false)
}
