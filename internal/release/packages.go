package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"time"
)

// packages writes what registries get besides the archives: wheels for Python with the program
// inside, packages for npm, an image and a Helm chart. python is the Python that builds the wheel.
func packages(out, python string, all []*built, at time.Time) ([]file, error) {
	step("wheels for Python")
	plain, err := plainWheel(python)
	if err != nil {
		return nil, err
	}
	var made []file
	for _, b := range all {
		name, data, err := wheelOf(plain, b, at)
		if err != nil {
			return nil, err
		}
		made = append(made, file{name, 0o644, data})
	}
	step("packages for npm")
	if plain, err = plainNPM(); err != nil {
		return nil, err
	}
	sdk, programs, err := npmOf(plain, all, at)
	if err != nil {
		return nil, err
	}
	made = append(made, sdk)
	for _, p := range programs {
		made = append(made, file{"npm/" + p.name, 0o644, p.data})
	}
	step("the image and the chart")
	data, err := image(all, at)
	if err != nil {
		return nil, err
	}
	made = append(made, file{"pawl-" + all[0].version + ".oci.tar", 0o644, data})
	chart, err := chartOf("deploy/helm/pawl", at)
	if err != nil {
		return nil, err
	}
	made = append(made, chart)
	for _, b := range all {
		if b.platform != runtime.GOOS+"/"+runtime.GOARCH {
			fmt.Println("built, and not tried on its system:", b.platform)
		}
	}
	return made, os.MkdirAll(filepath.Join(out, "npm"), 0o755)
}

var chartVersion = regexp.MustCompile(`(?m)^version: (\S+)$`)

// chartOf packs a Helm chart, as helm package does.
func chartOf(folder string, at time.Time) (file, error) {
	var files []file
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel(folder, path)
		files = append(files, file{filepath.ToSlash(name), 0o644, data})
		return err
	})
	if err != nil {
		return file{}, err
	}
	for _, f := range files {
		if m := chartVersion.FindSubmatch(f.data); f.name == "Chart.yaml" && m != nil {
			data, err := tarred("pawl", files, at)
			return file{"pawl-" + string(m[1]) + ".tgz", 0o644, data}, err
		}
	}
	return file{}, fmt.Errorf("%s has no Chart.yaml with a version", folder)
}
