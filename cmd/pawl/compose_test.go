package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/knadh/koanf/parsers/yaml"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/cmd/pawl/internal/cli"
)

const composeDir = "../../examples/compose"

// The members of the Compose Specification that a file may have, and the form of each.
var (
	composeMembers = map[string]form{"name": text, "services": object, "volumes": object, "networks": object, "configs": object,
		"secrets": object}
	serviceMembers = map[string]form{"image": text, "build": object, "command": list, "entrypoint": list, "environment": object,
		"env_file": list, "ports": list, "expose": list, "volumes": list, "tmpfs": list, "depends_on": object, "healthcheck": object,
		"restart": text, "stop_grace_period": text, "stop_signal": text, "networks": list, "user": text, "working_dir": text,
		"read_only": truth, "init": truth, "labels": object, "logging": object, "deploy": object, "profiles": list}
	buildMembers  = map[string]form{"context": text, "dockerfile": text, "args": object, "target": text}
	healthMembers = map[string]form{"test": list, "interval": text, "timeout": text, "retries": number, "start_period": text,
		"disable": truth}
	dependsMembers = map[string]form{"condition": text, "restart": truth, "required": truth}
	conditions     = []string{"service_started", "service_healthy", "service_completed_successfully"}
	restarts       = []string{"no", "always", "on-failure", "unless-stopped"}
)

// form is how the test writes a member; the specification knows shorter ones of some.
type form string

const (
	text   form = "a text"
	number form = "a number"
	truth  form = "true or false"
	list   form = "a list of texts"
	object form = "an object"
)

func formOf(v any) form {
	switch v := v.(type) {
	case string:
		return text
	case int:
		return number
	case bool:
		return truth
	case map[string]any:
		return object
	case []any:
		if !slices.ContainsFunc(v, func(x any) bool { return formOf(x) != text }) {
			return list
		}
	}
	return form(fmt.Sprintf("%v, a %T", v, v))
}

// fits checks the members of an object.
func fits(t *testing.T, at string, v any, known map[string]form) map[string]any {
	t.Helper()
	o, _ := v.(map[string]any)
	for name, x := range o {
		if want := known[name]; want == "" || formOf(x) != want {
			t.Errorf("%s.%s is %s, want %q", at, name, formOf(x), want)
		}
	}
	return o
}

// composed reads the files, the later ones over the earlier ones, as `docker compose -f` does with services that differ.
func composed(t *testing.T, names ...string) map[string]any {
	t.Helper()
	all := map[string]any{"services": map[string]any{}}
	for _, name := range names {
		file, err := yaml.Parser().Unmarshal([]byte(read(t, filepath.Join(composeDir, name))))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		fits(t, name, file, composeMembers)
		services := all["services"].(map[string]any)
		for service, v := range file["services"].(map[string]any) {
			if services[service] != nil {
				t.Errorf("%s has the service %s a second time", name, service)
			}
			services[service] = v
		}
		delete(file, "services")
		maps.Copy(all, file)
	}
	return all
}

func texts(v any) (out []string) {
	l, _ := v.([]any)
	for _, x := range l {
		out = append(out, x.(string))
	}
	return out
}

var variable = regexp.MustCompile(`\$\{(\w+)[^}]*\}`)

// checkService checks one service of a file.
func checkService(t *testing.T, name string, v any, file map[string]any) {
	t.Helper()
	s := fits(t, name, v, serviceMembers)
	if s["image"] == nil && s["build"] == nil {
		t.Errorf("%s has neither image nor build", name)
	}
	if build := fits(t, name+".build", s["build"], buildMembers); build != nil {
		context := filepath.Join(composeDir, build["context"].(string))
		checkBuild(t, context, filepath.Join(context, build["dockerfile"].(string)))
	}
	fits(t, name+".healthcheck", s["healthcheck"], healthMembers)
	others, _ := s["depends_on"].(map[string]any)
	for other, v := range others {
		d := fits(t, name+".depends_on."+other, v, dependsMembers)
		of, there := file["services"].(map[string]any)[other].(map[string]any)
		if !there || !slices.Contains(conditions, d["condition"].(string)) || d["condition"] == "service_healthy" && of["healthcheck"] == nil {
			t.Errorf("%s depends on %s, %v", name, other, d)
		}
	}
	if r := s["restart"]; r != nil && !slices.Contains(restarts, r.(string)) {
		t.Errorf("%s restarts %v", name, r)
	}
	if p := s["stop_grace_period"]; p != nil {
		if d, err := time.ParseDuration(p.(string)); err != nil || d <= pawl.DefaultStopGrace {
			t.Errorf("%s has %v to stop", name, p)
		}
	}
	volumes, _ := file["volumes"].(map[string]any)
	for _, mount := range texts(s["volumes"]) {
		volume, _, _ := strings.Cut(mount, ":")
		_, there := volumes[volume]
		if _, err := os.Stat(filepath.Join(composeDir, volume)); !there && (!strings.HasPrefix(volume, "./") || err != nil) {
			t.Errorf("%s mounts %s", name, mount)
		}
	}
}

// checkBuild checks that the context has what the file copies from it.
func checkBuild(t *testing.T, context, file string) {
	t.Helper()
	ignored, err := os.ReadFile(filepath.Join(context, ".containerignore"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for line := range strings.Lines(read(t, file)) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "COPY" || strings.HasPrefix(words[1], "--from") {
			continue
		}
		for _, source := range words[1 : len(words)-1] {
			top, _, _ := strings.Cut(source, "/")
			if _, err := os.Stat(filepath.Join(context, source)); err != nil || slices.Contains(strings.Fields(string(ignored)), top) {
				t.Errorf("%s copies %s, which is not in %s", file, source, context)
			}
		}
	}
}

// The files for compose are well-formed, and fit the program: its commands, settings, port and the time of a stop. The
// commands of their README work. No container is started.
func TestTheComposeFiles(t *testing.T) {
	readme, example := read(t, composeDir+"/README.md"), read(t, composeDir+"/.env.example")
	for _, names := range [][]string{{"compose.yaml"}, {"compose.yaml", "worker.yaml"}} {
		file := composed(t, names...)
		for name, v := range file["services"].(map[string]any) {
			checkService(t, name, v, file)
		}
		for _, name := range names {
			for _, m := range variable.FindAllStringSubmatch(read(t, filepath.Join(composeDir, name)), -1) {
				if !strings.Contains(example, m[1]+"=\n") || !strings.Contains(m[0], ":?") {
					t.Errorf("%s needs %s, which .env.example does not name", name, m[0])
				}
			}
		}
	}
	services := composed(t, "compose.yaml", "worker.yaml")["services"].(map[string]any)
	server := services["pawl"].(map[string]any)
	var env []string
	for name, value := range server["environment"].(map[string]any) {
		if strings.HasPrefix(name, "PAWL_") {
			env = append(env, name+"="+value.(string))
		}
	}
	command := texts(server["command"])
	cfg := configured(t, command, env...)
	port := cli.Defaults().Serve.Addr[strings.LastIndexByte(cli.Defaults().Serve.Addr, ':')+1:]
	published := texts(server["ports"])
	if cfg.DB != "postgres://pawl@postgres/pawl" || cfg.Serve.Addr != "0.0.0.0:"+port || published[0] != "127.0.0.1:"+port+":"+port {
		t.Errorf("the server: %s at %s, %v", cfg.DB, cfg.Serve.Addr, published)
	}
	worker := services["worker"].(map[string]any)["environment"].(map[string]any)
	if worker["PAWL_SERVER"] != "http://pawl:"+port {
		t.Errorf("the worker asks %v", worker["PAWL_SERVER"])
	}
	tryCommands(t, readme)
}

// tryCommands runs what the README has the program do, on a database of its own.
func tryCommands(t *testing.T, readme string) {
	t.Helper()
	dir := t.TempDir()
	lines := regexp.MustCompile(`(?m)^docker compose run --rm pawl (.*)$`).FindAllStringSubmatch(readme, -1)
	said := map[string]string{}
	for _, line := range lines {
		text, _, _ := strings.Cut(line[1], " #")
		text, _, _ = strings.Cut(text, "  ")
		cmd := exec.Command("sh", "-c", "exec pawl "+text)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PAWL_DB=sqlite:compose.db")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("pawl %s: %v", text, err)
		}
		said[strings.Join(strings.Fields(text)[:2], " ")] = string(bytes.TrimSpace(out))
	}
	for _, want := range []string{"migrate up", "key bootstrap", "key create", "task create", "task list"} {
		if _, ran := said[want]; !ran {
			t.Errorf("README does not run pawl %s", want)
		}
	}
	if !strings.Contains(said["task list"], "greet") {
		t.Errorf("the task: %s", strconv.Quote(said["task list"]))
	}
}
