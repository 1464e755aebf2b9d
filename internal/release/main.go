// Command release builds Pawl for five platforms into a folder: an archive for each, with its
// list of modules in CycloneDX format, and SHA256SUMS. The same commit, Go and version give
// the same bytes.
//
// With -packages it writes what registries get too: wheels for Python and packages for npm with the
// program inside, an image and a Helm chart.
//
//	go run ./internal/release -out dist
//	go run ./internal/release -out dist -packages
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

var platforms = []string{"linux/amd64", "linux/arm64", "darwin/amd64", "darwin/arm64", "windows/amd64"}

func main() {
	out := flag.String("out", "dist", "the folder for the archives")
	only := flag.String("only", strings.Join(platforms, ","), "platforms to build for, with commas between them")
	also := flag.Bool("packages", false, "write the packages for registries too")
	quick := flag.Bool("quick", false, "for a test: this platform alone, compiled as the tests are")
	python := flag.String("python", "python3", "the Python that builds the wheel")
	flag.Parse()
	if !*also {
		*python = ""
	}
	if *quick {
		*only = runtime.GOOS + "/" + runtime.GOARCH
	}
	if err := release(*out, *python, strings.Split(*only, ","), *quick); err != nil {
		log.Fatal(err)
	}
}

// file is one member of an archive.
type file struct {
	name string
	mode os.FileMode
	data []byte
}

// built is the program of a platform.
type built struct {
	platform, version string
	name              string // pawl or pawl.exe
	program           []byte
	archive           file
	bom               []byte
}

// release writes the archives, and with the name of a Python the packages too.
func release(out, python string, platforms []string, quick bool) error {
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	stamp, err := exec.Command("git", "log", "-1", "--format=%ct").Output()
	if err != nil {
		return fmt.Errorf("the time of the commit: %w", err)
	}
	seconds, err := strconv.ParseInt(strings.TrimSpace(string(stamp)), 10, 64)
	if err != nil {
		return err
	}
	at := time.Unix(seconds, 0).UTC()
	var all []*built
	var files []file
	for _, p := range platforms {
		step("the program for " + p)
		b, err := build(p, at, quick)
		if err != nil {
			return fmt.Errorf("%s: %w", p, err)
		}
		all = append(all, b)
		files = append(files, b.archive, file{name: b.archive.name + ".cdx.json", data: b.bom})
	}
	if python != "" {
		more, err := packages(out, python, all, at)
		if err != nil {
			return err
		}
		files = append(files, more...)
	}
	var sums bytes.Buffer
	for _, f := range files {
		path := filepath.Join(out, filepath.FromSlash(f.name))
		if err := os.WriteFile(path, f.data, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(f.data), f.name)
		fmt.Println(path)
	}
	return os.WriteFile(filepath.Join(out, "SHA256SUMS"), sums.Bytes(), 0o644)
}

// step says on stderr what is made now: most steps take long.
func step(what string) { fmt.Fprintln(os.Stderr, "making", what) }

// build builds the program for a platform and packs it with its README and changelog.
func build(platform string, at time.Time, quick bool) (*built, error) {
	system, arch, _ := strings.Cut(platform, "/")
	dir, err := os.MkdirTemp("", "pawl-release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	program := "pawl"
	if system == "windows" {
		program = "pawl.exe"
	}
	path := filepath.Join(dir, program)
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=true", "-ldflags=-s -w", "-o", path, "./cmd/pawl")
	if quick {
		cmd = exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/pawl")
	}
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOOS="+system, "GOARCH="+arch)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, err
	}
	bom, err := components(info)
	if err != nil {
		return nil, err
	}
	files := []file{{name: program, mode: 0o755}, {name: "README.md", mode: 0o644}, {name: "CHANGELOG.md", mode: 0o644}}
	for i, from := range []string{path, "README.md", "CHANGELOG.md"} {
		if files[i].data, err = os.ReadFile(from); err != nil {
			return nil, err
		}
	}
	version := strings.Trim(strings.TrimPrefix(info.Main.Version, "v"), "()") // (devel) without a repository
	out := &built{platform: platform, version: version, name: program, program: files[0].data, bom: bom}
	stem := fmt.Sprintf("pawl_%s_%s_%s", version, system, arch)
	if system == "windows" {
		out.archive.name = stem + ".zip"
		out.archive.data, err = zipped(stem, files, at)
	} else {
		out.archive.name = stem + ".tar.gz"
		out.archive.data, err = tarred(stem, files, at)
	}
	return out, err
}

func tarred(folder string, files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	for _, f := range files {
		h := &tar.Header{Name: folder + "/" + f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: at, Format: tar.FormatUSTAR}
		if err := t.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := t.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func zipped(folder string, files []file, at time.Time) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range files {
		h := &zip.FileHeader{Name: strings.TrimPrefix(folder+"/"+f.name, "/"), Method: zip.Deflate, Modified: at}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// component is a module of a CycloneDX list.
type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version"`
	URL     string `json:"purl"`
}

// components lists the modules that a program was linked from.
func components(info *buildinfo.BuildInfo) ([]byte, error) {
	of := func(kind, path, version string) component {
		url := "pkg:golang/" + path + "@" + version
		return component{Type: kind, Ref: url, Name: path, Version: version, URL: url}
	}
	list := []component{of("library", "stdlib", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, m := range info.Deps {
		for m.Replace != nil {
			m = m.Replace
		}
		list = append(list, of("library", m.Path, m.Version))
	}
	slices.SortFunc(list, func(a, b component) int { return strings.Compare(a.Name, b.Name) })
	return json.MarshalIndent(map[string]any{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1,
		"metadata":   map[string]any{"component": of("application", info.Main.Path, info.Main.Version)},
		"components": list,
	}, "", "  ")
}
