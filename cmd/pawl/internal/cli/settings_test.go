package cli

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawl-work/pawl"
)

var update = flag.Bool("update", false, "write the table of settings in docs/cli.md anew")

// The table of settings and the fields of Config have the same keys, and each default
// has the type of its field.
func TestSettings(t *testing.T) {
	fields := KeysOf(reflect.TypeFor[Config](), "")
	var keys []string
	for _, s := range Settings {
		keys = append(keys, s.Key)
		if !slices.Contains(fields, s.Key) {
			t.Errorf("%s has no field in Config", s.Key)
			continue
		}
		if s.Default != nil && reflect.TypeOf(s.Default) != typeOfKey(s.Key) {
			t.Errorf("the default of %s is a %T, its field a %s", s.Key, s.Default, typeOfKey(s.Key))
		}
		if s.Help == "" {
			t.Errorf("%s has no help", s.Key)
		}
		f := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.addFlag(f)
		if got := f.Lookup(s.Flag); s.Flag != "" && (got == nil || got.Annotations[keyAnnotation][0] != s.Key) {
			t.Errorf("%s has no flag --%s", s.Key, s.Flag)
		}
	}
	for _, key := range fields {
		if !slices.Contains(keys, key) {
			t.Errorf("%s has no row in Settings", key)
		}
	}
	if d := Defaults(); d.Serve.Addr == "" || d.Worker.Concurrency != 1 || *d.Sweep.options() != sweepDefaults {
		t.Errorf("the defaults are %+v", d)
	}
}

// The table of settings in docs/cli.md is made from Settings.
func TestPageHasTheSettings(t *testing.T) {
	const page, begin, end = "../../../../docs/cli.md", "<!-- settings: go test ./cmd/pawl/internal/cli -update -->\n",
		"<!-- end of settings -->\n"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, _ := strings.Cut(string(raw), begin)
	_, after, found := strings.Cut(rest, end)
	if !found {
		t.Fatalf("%s has no table of settings", page)
	}
	var b strings.Builder
	b.WriteString("| key | flag | default | |\n|---|---|---|---|\n")
	for _, s := range Settings {
		flag, value, text := "", "", s.Help
		if s.Flag != "" {
			flag = "`--" + s.Flag + "`"
		}
		if s.Default != nil {
			value = fmt.Sprintf("`%v`", s.Default)
		}
		if s.More != "" {
			text += ". " + s.More
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", s.Key, flag, value, text)
	}
	want := before + begin + b.String() + end + after
	if *update {
		err = os.WriteFile(page, []byte(want), 0o644)
	} else if want != string(raw) {
		t.Errorf("the table of settings is old; write it anew with -update")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What a file or a variable says of retention is stored by the server alone. Flags of other commands count for these alone.
func TestOnlyTheServerStoresSettings(t *testing.T) {
	for serves, want := range map[bool][]string{true: {"retain_keys", "retain_tasks"}, false: {"retain_keys"}} {
		a := &App{Env: []string{"PAWL_SWEEP_RETAIN_TASKS=0s", "PAWL_CONFIG=" + os.DevNull}, Serves: serves}
		cmd := &cobra.Command{}
		GlobalFlags(cmd.Flags())
		SettingFlags(cmd.Flags(), "sweep.")
		if err := errors.Join(cmd.ParseFlags([]string{"--retain-keys", "1h"}), a.Configure(cmd)); err != nil {
			t.Fatal(err)
		}
		o := a.EngineOptions()
		if slices.Sort(o.SweepSet); !slices.Equal(o.SweepSet, want) || o.SweepOnce == serves || o.Sweep.RetainTasks != 0 {
			t.Errorf("serve %t: %v, once %t", serves, o.SweepSet, o.SweepOnce)
		}
	}
}

// A command without flags for ages, such as `pawl worker`, removes nothing by its settings that the defaults keep.
func TestAWorkersSettingsKeepAsMuchAsTheDefaults(t *testing.T) {
	a := &App{Env: []string{"PAWL_SWEEP_RETAIN_TASKS=1s", "PAWL_SWEEP_RETAIN_KEYS=0s", "PAWL_SWEEP_RETAIN_FAILED=99999h",
		"PAWL_SWEEP_CHECKPOINT_RETENTION_LIMIT=1", "PAWL_CONFIG=" + os.DevNull}}
	cmd := &cobra.Command{}
	GlobalFlags(cmd.Flags())
	if err := errors.Join(cmd.ParseFlags(nil), a.Configure(cmd)); err != nil {
		t.Fatal(err)
	}
	o, d := a.EngineOptions().Sweep, pawl.DefaultSweepOptions()
	if o.RetainTasks != d.RetainTasks || o.RetainKeys != 0 || o.RetainFailed != 99999*time.Hour ||
		o.CheckpointRetentionLimit != d.CheckpointRetentionLimit {
		t.Errorf("%+v", o)
	}
}

// Flags take durations as the file and variables do.
func TestFlagsTakeDays(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	SettingFlags(f, "sweep.")
	if err := f.Parse([]string{"--retain-tasks=60d", "--bury-after=36h"}); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]time.Duration{"retain-tasks": 60 * 24 * time.Hour, "bury-after": 36 * time.Hour} {
		if got, err := f.GetDuration(name); got != want || err != nil {
			t.Errorf("--%s is %s, %v", name, got, err)
		}
	}
	if err := f.Parse([]string{"--retain-tasks=soon"}); err == nil {
		t.Error("--retain-tasks=soon was taken")
	}
}
