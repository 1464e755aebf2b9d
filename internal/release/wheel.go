package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// wheelTags are the tags of wheels, by platform. The program is linked statically, so one wheel of
// a processor serves every libc of Linux. Go needs macOS 12.
var wheelTags = map[string][]string{
	"linux/amd64":   {"manylinux_2_17_x86_64", "manylinux2014_x86_64", "musllinux_1_1_x86_64"},
	"linux/arm64":   {"manylinux_2_17_aarch64", "manylinux2014_aarch64", "musllinux_1_1_aarch64"},
	"darwin/amd64":  {"macosx_12_0_x86_64"},
	"darwin/arm64":  {"macosx_12_0_arm64"},
	"windows/amd64": {"win_amd64"},
}

// plainWheel builds the wheel of the Python package, which has no program. The Python has hatchling.
func plainWheel(python string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "pawl-wheel")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := run(python, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
		"--wheel-dir", dir, "./sdk/python"); err != nil {
		return nil, err
	}
	made, err := filepath.Glob(filepath.Join(dir, "*.whl"))
	if err != nil || len(made) != 1 {
		return nil, fmt.Errorf("pip made the wheels %v, %w", made, err)
	}
	return os.ReadFile(made[0])
}

func run(name string, args ...string) error {
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// wheelOf adds the program of a platform to the plain wheel. The installer puts it on PATH.
func wheelOf(plain []byte, b *built, at time.Time) (name string, wheel []byte, err error) {
	r, err := zip.NewReader(bytes.NewReader(plain), int64(len(plain)))
	if err != nil {
		return "", nil, err
	}
	tags, info := wheelTags[b.platform], ""
	var files []file
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			return "", nil, err
		}
		data, err := io.ReadAll(in)
		if err != nil {
			return "", nil, err
		}
		switch {
		case strings.HasSuffix(f.Name, ".dist-info/WHEEL"):
			info = strings.TrimSuffix(f.Name, ".dist-info/WHEEL") // pawl_work-0.1.0
			data = []byte("Wheel-Version: 1.0\nGenerator: pawl-release\nRoot-Is-Purelib: false\n")
			for _, tag := range tags {
				data = append(data, "Tag: py3-none-"+tag+"\n"...)
			}
		case strings.HasSuffix(f.Name, ".dist-info/RECORD"):
			continue
		}
		files = append(files, file{f.Name, 0o644, data})
	}
	if info == "" || len(tags) == 0 {
		return "", nil, fmt.Errorf("no wheel, or no tag for %s", b.platform)
	}
	files = append(files, file{info + ".data/scripts/" + b.name, 0o755, b.program}, file{"pawl/_program", 0o644, []byte(b.name + "\n")})
	record := ""
	for _, f := range files {
		sum := sha256.Sum256(f.data)
		record += fmt.Sprintf("%s,sha256=%s,%d\n", f.name, base64.RawURLEncoding.EncodeToString(sum[:]), len(f.data))
	}
	at = at.Truncate(2 * time.Second) // what the form can hold
	files = append(files, file{info + ".dist-info/RECORD", 0o644, []byte(record + info + ".dist-info/RECORD,,\n")})
	wheel, err = zipped("", files, at)
	return info + "-py3-none-" + strings.Join(tags, ".") + ".whl", wheel, err
}
