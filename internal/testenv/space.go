package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pawl-work/pawl/internal/testserver"
)

// Estimates of what a run of all packages takes at its peak, from an empty cache of builds. Of one that has a part of the
// packages, the rest of the cache's share is needed.
const (
	testsBytes, testsFiles   = 2 << 30, 30_000
	buildsBytes, buildsFiles = 1 << 30, 10_000
	cacheBytes, cacheFiles   = 4 << 30, 30_000
)

// share is what a run puts into a directory at its peak.
type share struct {
	dir          string
	bytes, files uint64
}

// places are where a run of tests puts its files. Each commit of SQLite waits for its disk, and thousands of tests would
// wait for one disk: so the files of tests and servers are in memory if that is possible, with what Go builds beside them.
type places struct{ tests, builds string }

// placesOf returns the directories below which a run makes its own, without what killed runs left there.
func placesOf() places {
	builds := cmp.Or(os.Getenv("GOTMPDIR"), testserver.MemoryDir(), os.TempDir()) // testing.T.TempDir is in it, too
	testserver.RemoveOld(builds)                                                  // before what is free is asked
	return places{tests: cmp.Or(testserver.MemoryDir(), os.TempDir()), builds: builds}
}

// tooFull says in one line where there is too little room for a run of all packages, or of some; "" = nowhere. stale says
// what part of the packages the cache of builds lacks. It takes seconds, so it is asked only where an empty cache has no room.
func (p places) tooFull(all bool, roomOf func(dir string) (testserver.Room, bool), stale func() float64) string {
	if os.Getenv("PAWL_TEST_SPACE") == "0" {
		return ""
	}
	part := 1.0
	if !all {
		part = 1.0 / 8
	}
	of := []share{share{p.tests, testsBytes, testsFiles}.times(part), share{p.builds, buildsBytes, buildsFiles}.times(part)}
	cache, err := os.UserCacheDir()
	if err != nil {
		return missingRoom(of, roomOf)
	}
	builds := share{cmp.Or(os.Getenv("GOCACHE"), filepath.Join(cache, "go-build")), cacheBytes, cacheFiles}.times(part)
	if missingRoom(append(of, builds), roomOf) == "" {
		return ""
	}
	return missingRoom(append(of, builds.times(stale())), roomOf)
}

func (s share) times(f float64) share {
	return share{s.dir, uint64(f * float64(s.bytes)), uint64(f * float64(s.files))}
}

// stalePart asks Go what part of all packages, those of tests among them, the cache of builds lacks; 1 if it cannot tell.
func stalePart(ctx context.Context) float64 {
	out, err := exec.CommandContext(ctx, "go", "list", "-deps", "-test", "-f", "{{.Stale}}", allPackages).Output()
	stale := strings.Count(string(out), "true")
	if all := stale + strings.Count(string(out), "false"); err == nil && all > 0 {
		return float64(stale) / float64(all)
	}
	return 1
}

// make makes the directories of this run, and adds them to env. leave removes them.
func (p places) make(env []string) (of places, with []string, leave func(), err error) {
	var errs [3]error
	if of.tests, errs[0] = testserver.Scratch(p.tests); p.builds == p.tests {
		of.builds = of.tests
	} else {
		of.builds, errs[1] = testserver.Scratch(p.builds)
	}
	errs[2] = os.Chmod(of.tests, 0o711) // servers of another account have their directories below it
	leave = func() {
		if err := errors.Join(os.RemoveAll(of.tests), os.RemoveAll(of.builds)); err != nil {
			note("%v", err)
		}
		testserver.RemoveOld() // of tests that were killed
	}
	return of, append(env, "TMPDIR="+of.tests, "GOTMPDIR="+of.builds), leave, errors.Join(errs[:]...)
}

// missingRoom says where there is less room than shares need. Directories of one file system share its room.
func missingRoom(of []share, roomOf func(dir string) (testserver.Room, bool)) string {
	var systems []testserver.Room
	var needs []share
	for _, s := range of {
		has, ok := roomOf(s.dir)
		if !ok {
			continue
		}
		i := slices.IndexFunc(systems, func(r testserver.Room) bool { return r.System == has.System })
		if i < 0 {
			i, systems, needs = len(systems), append(systems, has), append(needs, share{dir: s.dir})
		}
		needs[i].bytes, needs[i].files = needs[i].bytes+s.bytes, needs[i].files+s.files
	}
	var said []string
	for i, has := range systems {
		if n := needs[i]; has.Bytes < n.bytes || has.Files < n.files {
			said = append(said, fmt.Sprintf("%s has room for %d MiB and %d files, and the tests need %d MiB and %d files",
				n.dir, has.Bytes>>20, has.Files, n.bytes>>20, n.files))
		}
	}
	return strings.Join(said, "; ")
}
