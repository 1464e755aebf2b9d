package main

import (
	"fmt"
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is what was built, from what.
type version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Modified bool   `json:"modified,omitempty"` // the tree had changes of its own
	Go       string `json:"go"`
}

func (a *app) versionCmd() *cobra.Command {
	return a.verb("version", "What this program is", cobra.NoArgs, func(*cobra.Command, []string) error {
		v := readVersion()
		return a.show(v, func(w io.Writer) { fmt.Fprintf(w, "pawl %s %s (%s)\n", v.Version, v.Commit, v.Go) })
	})
}

func readVersion() version {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return version{Version: "unknown"}
	}
	v := version{Version: info.Main.Version, Go: info.GoVersion}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
