package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"debug/buildinfo"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// The same files and time give the same archive, in both forms, and it can be unpacked.
func TestArchivesAreReproducible(t *testing.T) {
	at := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	files := []file{{"pawl", 0o755, bytes.Repeat([]byte("program"), 1000)}, {"README.md", 0o644, []byte("# Pawl")}}
	for name, pack := range map[string]func(string, []file, time.Time) ([]byte, error){"tar": tarred, "zip": zipped} {
		one, err := pack("pawl_1", files, at)
		if err != nil {
			t.Fatal(err)
		}
		two, err := pack("pawl_1", files, at)
		if err != nil || !bytes.Equal(one, two) {
			t.Errorf("%s: packed twice it differs, %v", name, err)
		}
		later, err := pack("pawl_1", files, at.Add(time.Hour))
		if err != nil || bytes.Equal(one, later) {
			t.Errorf("%s: the time of the commit is not in it, %v", name, err)
		}
	}
	packed, err := tarred("pawl_1", files, at)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(z)
	for _, f := range files {
		h, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if data, err := io.ReadAll(r); err != nil || h.Name != "pawl_1/"+f.name || h.Mode != int64(f.mode) || !bytes.Equal(data, f.data) {
			t.Errorf("%s, mode %o, %d bytes, %v", h.Name, h.Mode, len(data), err)
		}
	}
	packed, err = zipped("pawl_1", files, at)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed))); err != nil || len(r.File) != 2 || r.File[0].Mode() != 0o755 {
		t.Errorf("the zip: %v", err)
	}
}

// The list of modules has the modules that a program was linked from.
func TestComponents(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := components(info)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		BomFormat  string
		Components []struct{ Name, Purl string }
	}
	if err := json.Unmarshal(raw, &bom); err != nil || bom.BomFormat != "CycloneDX" || len(bom.Components) != 1+len(info.Deps) {
		t.Fatalf("%v: %s", err, raw)
	}
	if !strings.Contains(string(raw), `"purl": "pkg:golang/stdlib@`) {
		t.Errorf("the standard library is not in it: %s", raw)
	}
}
