package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// nodeNames are the names that Node has for systems and processors.
var nodeNames = map[string]string{"linux": "linux", "darwin": "darwin", "windows": "win32", "amd64": "x64", "arm64": "arm64"}

// launcher runs the program of the package of this platform, or another one that is there.
const launcher = `#!/usr/bin/env node
import { spawn } from "node:child_process";
import { createRequire } from "node:module";

const name = process.platform === "win32" ? "pawl.exe" : "pawl";
const packaged = "@pawl-work/server-" + process.platform + "-" + process.arch;
let program = process.env.PAWL_BINARY;
if (!program) {
  try {
    program = createRequire(import.meta.url).resolve(packaged + "/bin/" + name);
  } catch {
    console.error("the package " + packaged + " is not installed, and PAWL_BINARY names no program");
    process.exit(127);
  }
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(error.message);
  process.exit(127);
});
child.on("exit", (code, signal) => process.exit(signal ? 1 : code));
`

// plainNPM packs the TypeScript package, which has no program.
func plainNPM() ([]byte, error) {
	dir, err := os.MkdirTemp("", "pawl-npm")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	tools, err := exec.Command("./internal/npm", "sdk/typescript").Output()
	if err != nil {
		return nil, fmt.Errorf("the packages of sdk/typescript: %w", err)
	}
	path := strings.TrimSpace(string(tools))
	folder := "sdk/typescript"
	modules := filepath.Join(folder, "node_modules")
	if info, err := os.Lstat(modules); err != nil || info.Mode()&os.ModeSymlink != 0 { // as its run does
		_ = os.Remove(modules)
		if err := os.Symlink(filepath.Join(path[strings.LastIndex(path, ":")+1:], ".."), modules); err != nil {
			return nil, err
		}
	}
	cmd := exec.Command("npm", "pack", "--silent", "--pack-destination", dir)
	cmd.Dir, cmd.Stdout, cmd.Stderr = folder, os.Stderr, os.Stderr
	cmd.Env = append(os.Environ(), "PATH="+path+":"+os.Getenv("PATH"))
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("npm pack: %w", err)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(made) != 1 {
		return nil, fmt.Errorf("npm made the packages %v, %w", made, err)
	}
	return os.ReadFile(made[0])
}

// npmOf returns the package with the programs as optional dependencies, and the package of each
// program. Each is a name and its bytes.
func npmOf(plain []byte, all []*built, at time.Time) (sdk file, programs []file, err error) {
	files, err := untarred(plain)
	if err != nil {
		return file{}, nil, err
	}
	for i, f := range files {
		if f.name != "package.json" {
			continue
		}
		var p map[string]json.RawMessage // which keeps the order of conditions: the first that holds counts
		if err := json.Unmarshal(f.data, &p); err != nil {
			return file{}, nil, err
		}
		var version string
		if err := json.Unmarshal(p["version"], &version); err != nil {
			return file{}, nil, err
		}
		optional := map[string]any{}
		for _, b := range all {
			system, arch, _ := strings.Cut(b.platform, "/")
			short := "server-" + nodeNames[system] + "-" + nodeNames[arch]
			optional["@pawl-work/"+short] = version
			manifest, err := json.MarshalIndent(map[string]any{"name": "@pawl-work/" + short, "version": version, "os": []string{nodeNames[system]},
				"cpu": []string{nodeNames[arch]}, "description": "The program pawl for " + b.platform, "license": p["license"],
				"repository": p["repository"], "files": []string{"bin"}}, "", "  ")
			if err != nil {
				return file{}, nil, err
			}
			data, err := tarred("package", []file{{"package.json", 0o644, manifest}, {"bin/" + b.name, 0o755, b.program}}, at)
			if err != nil {
				return file{}, nil, err
			}
			programs = append(programs, file{"pawl-work-" + short + "-" + version + ".tgz", 0o644, data})
		}
		if p["optionalDependencies"], err = json.Marshal(optional); err != nil {
			return file{}, nil, err
		}
		p["bin"] = json.RawMessage(`{"pawl": "bin/pawl.js"}`)
		if files[i].data, err = json.MarshalIndent(p, "", "  "); err != nil {
			return file{}, nil, err
		}
		sdk.name = "pawl-work-sdk-" + version + ".tgz"
	}
	if sdk.name == "" {
		return file{}, nil, fmt.Errorf("the package has no package.json")
	}
	sdk.data, err = tarred("package", append(files, file{"bin/pawl.js", 0o755, []byte(launcher)}), at)
	return sdk, programs, err
}

// untarred returns the files of a package of npm, without their folder.
func untarred(packed []byte) (files []file, err error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		data, err := io.ReadAll(r)
		if err != nil {
			return nil, err
		}
		files = append(files, file{strings.TrimPrefix(h.Name, "package/"), os.FileMode(h.Mode), data})
	}
}
