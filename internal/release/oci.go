package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// certificates is the file with the authorities that the system of the builder trusts.
const certificates = "/etc/ssl/certs/ca-certificates.crt"

// user and group of the image, which have no name.
const noName = 65532

// layout is an OCI image layout that is being made: an archive of blobs, by their digests.
type layout struct {
	tar  *tar.Writer
	at   time.Time
	made map[string]bool
	err  error
}

// descriptor names a blob.
type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Platform    *ociPlatform      `json:"platform,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

type ociPlatform struct {
	OS   string `json:"os"`
	Arch string `json:"architecture"`
}

const mediaTypes = "application/vnd.oci.image."

// image returns the image of the programs for Linux as an OCI layout in an archive, one image for
// each processor. It is what Containerfile says.
func image(all []*built, at time.Time) ([]byte, error) {
	roots, err := os.ReadFile(certificates)
	if err != nil {
		return nil, fmt.Errorf("the image needs the authorities that sign certificates: %w", err)
	}
	var out bytes.Buffer
	l := &layout{tar: tar.NewWriter(&out), at: at, made: map[string]bool{}}
	l.add("oci-layout", []byte(`{"imageLayoutVersion":"1.0.0"}`))
	var images []descriptor
	for _, b := range all {
		system, arch, _ := strings.Cut(b.platform, "/")
		if system != "linux" {
			continue
		}
		images = append(images, l.image(b, roots, arch))
	}
	index := l.blob("index.v1+json", map[string]any{"schemaVersion": 2, "mediaType": mediaTypes + "index.v1+json", "manifests": images})
	index.Annotations = map[string]string{"org.opencontainers.image.ref.name": "latest"}
	top, err := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": mediaTypes + "index.v1+json", "manifests": []descriptor{index}})
	if err != nil {
		return nil, err
	}
	l.add("index.json", top)
	if l.err == nil {
		l.err = l.tar.Close()
	}
	return out.Bytes(), l.err
}

// image adds the image of one processor.
func (l *layout) image(b *built, roots []byte, arch string) descriptor {
	var plain bytes.Buffer
	t := tar.NewWriter(&plain)
	put := func(name string, kind byte, mode int64, owner int, data []byte) {
		h := &tar.Header{Name: name, Typeflag: kind, Mode: mode, Size: int64(len(data)), ModTime: l.at, Uid: owner, Gid: owner,
			Format: tar.FormatUSTAR}
		err := t.WriteHeader(h)
		if err == nil {
			_, err = t.Write(data)
		}
		if err != nil && l.err == nil {
			l.err = err
		}
	}
	for _, dir := range []string{"etc/", "etc/ssl/", "etc/ssl/certs/"} {
		put(dir, tar.TypeDir, 0o755, 0, nil)
	}
	put(strings.TrimPrefix(certificates, "/"), tar.TypeReg, 0o644, 0, roots)
	put("pawl", tar.TypeReg, 0o755, 0, b.program)
	put("data/", tar.TypeDir, 0o755, noName, nil)
	put("tmp/", tar.TypeDir, 0o1777, 0, nil)
	if err := t.Close(); err != nil && l.err == nil {
		l.err = err
	}
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := io.Copy(z, bytes.NewReader(plain.Bytes())); err != nil && l.err == nil {
		l.err = err
	}
	if err := z.Close(); err != nil && l.err == nil {
		l.err = err
	}
	layer := l.bytes("layer.v1.tar+gzip", packed.Bytes())
	who := fmt.Sprintf("%d:%d", noName, noName)
	config := l.blob("config.v1+json", map[string]any{
		"created": l.at.Format(time.RFC3339), "os": "linux", "architecture": arch,
		"config": map[string]any{"User": who, "WorkingDir": "/data", "Env": []string{"PAWL_DB=sqlite:/data/pawl.db"}, "StopSignal": "SIGTERM",
			"Entrypoint": []string{"/pawl"}, "Cmd": []string{"serve"}, "Volumes": map[string]any{"/data": map[string]any{}},
			"ExposedPorts": map[string]any{"7033/tcp": map[string]any{}}},
		"rootfs":  map[string]any{"type": "layers", "diff_ids": []string{digest(plain.Bytes())}},
		"history": []map[string]string{{"created": l.at.Format(time.RFC3339), "created_by": "make packages"}},
	})
	out := l.blob("manifest.v1+json", map[string]any{"schemaVersion": 2, "mediaType": mediaTypes + "manifest.v1+json", "config": config,
		"layers": []descriptor{layer}})
	out.Platform = &ociPlatform{"linux", arch}
	return out
}

func digest(data []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(data)) }

// blob adds a document.
func (l *layout) blob(kind string, v any) descriptor {
	data, err := json.Marshal(v)
	if err != nil && l.err == nil {
		l.err = err
	}
	return l.bytes(kind, data)
}

func (l *layout) bytes(kind string, data []byte) descriptor {
	sum := digest(data)
	l.add("blobs/"+strings.Replace(sum, ":", "/", 1), data)
	return descriptor{MediaType: mediaTypes + kind, Digest: sum, Size: len(data)}
}

// add adds a file of the layout, once.
func (l *layout) add(name string, data []byte) {
	if l.made[name] || l.err != nil {
		return
	}
	l.made[name] = true
	h := &tar.Header{Name: name, Mode: 0o644, Size: int64(len(data)), ModTime: l.at, Format: tar.FormatUSTAR}
	if l.err = l.tar.WriteHeader(h); l.err == nil {
		_, l.err = l.tar.Write(data)
	}
}
