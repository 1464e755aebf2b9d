package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/internal/testserver"
)

// What has too little room is named before anything runs: bytes and files, and directories of one file system together.
func TestTooLittleRoomIsNamed(t *testing.T) {
	rooms := map[string]testserver.Room{
		"/memory": {System: 1, Bytes: 5 << 20, Files: 50},
		"/disk":   {System: 2, Bytes: 3 << 20, Files: 100},
		"/disk/b": {System: 2, Bytes: 3 << 20, Files: 100},
	}
	roomOf := func(dir string) (testserver.Room, bool) { r, ok := rooms[dir]; return r, ok }
	for _, c := range []struct {
		of   []share
		want string
	}{
		{[]share{{"/memory", 5 << 20, 50}, {"/disk", 1 << 20, 1}, {"/disk/b", 2 << 20, 99}, {"/unknown", 1 << 40, 1 << 40}}, ""},
		{[]share{{"/memory", 5 << 20, 51}}, "/memory has room for 5 MiB and 50 files, and the tests need 5 MiB and 51 files"},
		{[]share{{"/disk", 2 << 20, 1}, {"/disk/b", 2 << 20, 1}},
			"/disk has room for 3 MiB and 100 files, and the tests need 4 MiB and 2 files"},
	} {
		if got := missingRoom(c.of, roomOf); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

// A cache of builds that has most packages needs little room. It is asked only if an empty one has too little.
func TestAWarmCacheNeedsLittleRoom(t *testing.T) {
	t.Setenv("GOCACHE", "/cache")
	p, asked := places{tests: "/memory", builds: "/memory"}, 0
	said := func(free uint64, all bool, part float64) string {
		roomOf := func(dir string) (testserver.Room, bool) {
			return testserver.Room{System: uint64(len(dir)), Bytes: free, Files: 1 << 40}, dir == "/cache"
		}
		return p.tooFull(all, roomOf, func() float64 { asked++; return part })
	}
	if why := said(cacheBytes, true, 1); why != "" || asked != 0 {
		t.Errorf("an empty cache fits, and yet: %q, asked %d times", why, asked)
	}
	if why := said(cacheBytes/4, true, 0.25); why != "" || asked != 1 {
		t.Errorf("what is missing fits, and yet: %q, asked %d times", why, asked)
	}
	if said(cacheBytes/4, true, 0.3) == "" || said(cacheBytes/8, false, 1) != "" || said(cacheBytes/9, false, 1) == "" {
		t.Error("too little room is not told, or room is not enough")
	}
	t.Setenv("PAWL_TEST_SPACE", "0")
	if why := said(0, true, 1); why != "" {
		t.Errorf("it is switched off, and yet: %q", why)
	}
}

// A run has its files in directories of its own, which it removes. What a killed run has left, the next one removes.
func TestNothingIsLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("whether a process has ended is known on Linux alone")
	}
	dead := exec.Command("true")
	if err := dead.Run(); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	t.Setenv("GOTMPDIR", parent)
	left := filepath.Join(parent, "pawl-testserver-"+strconv.Itoa(dead.Process.Pid)+"-1", "TestX")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	p := placesOf()
	p.tests = t.TempDir()
	own, env, leave, err := p.make(nil)
	if err != nil || p.builds != parent {
		t.Fatal(p, err)
	}
	if found := entries(t, parent); len(found) != 1 || filepath.Join(parent, found[0]) != own.builds {
		t.Errorf("%s has %q", parent, found)
	}
	for _, setting := range env {
		name, dir, _ := strings.Cut(setting, "=")
		if err := os.WriteFile(filepath.Join(dir, "left"), nil, 0o600); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	leave()
	if found := append(entries(t, p.tests), entries(t, parent)...); len(env) != 2 || len(found) != 0 {
		t.Errorf("%q are left; the environment is %q", found, env)
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}
