package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

var (
	at    = time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
	linux = &built{platform: "linux/amd64", version: "1", name: "pawl", program: []byte("the program")}
	mac   = &built{platform: "darwin/arm64", version: "1", name: "pawl", program: []byte("another")}
)

// A wheel has the program among its scripts, its own tags, and a record that is true of each file.
func TestAWheelHasTheProgram(t *testing.T) {
	plain, err := zipped("", []file{{"pawl/__init__.py", 0o644, []byte("x")},
		{"pawl_work-0.1.0.dist-info/WHEEL", 0o644, []byte("Root-Is-Purelib: true")},
		{"pawl_work-0.1.0.dist-info/RECORD", 0o644, []byte("old")}}, at)
	if err != nil {
		t.Fatal(err)
	}
	name, wheel, err := wheelOf(plain, linux, at)
	if err != nil || !regexp.MustCompile(`^pawl_work-.*linux.*x86_64.*\.whl$`).MatchString(name) {
		t.Fatal(name, err)
	}
	r, err := zip.NewReader(bytes.NewReader(wheel), int64(len(wheel)))
	if err != nil {
		t.Fatal(err)
	}
	all, record := map[string][]byte{}, ""
	for _, f := range r.File {
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		if all[f.Name], err = io.ReadAll(in); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f.Name, "/RECORD") {
			record = string(all[f.Name])
		}
	}
	if string(all["pawl_work-0.1.0.data/scripts/pawl"]) != "the program" || !strings.Contains(string(all["pawl_work-0.1.0.dist-info/WHEEL"]),
		"Root-Is-Purelib: false\nTag: py3-none-manylinux_2_17_x86_64\n") {
		t.Errorf("%q", all)
	}
	for name, data := range all {
		sum := sha256.Sum256(data)
		want := fmt.Sprintf("%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
		if strings.HasSuffix(name, "/RECORD") {
			want = name + ",,\n"
		}
		if !strings.Contains(record, want) {
			t.Errorf("the record lacks %s", want)
		}
	}
	if _, _, err := wheelOf(plain, &built{platform: "plan9/386"}, at); err == nil {
		t.Error("a platform without a tag has a wheel")
	}
}

// The npm package names the packages of all programs as optional, in its own version.
func TestTheNPMPackageNamesThePrograms(t *testing.T) {
	manifest := []byte(`{"name":"@pawl-work/sdk","version":"0.1.0","exports":{"types":"t","default":"d"}}`)
	plain, err := tarred("package", []file{{"package.json", 0o644, manifest}}, at)
	if err != nil {
		t.Fatal(err)
	}
	sdk, programs, err := npmOf(plain, []*built{linux, mac}, at)
	if err != nil || sdk.name != "pawl-work-sdk-0.1.0.tgz" || len(programs) != 2 ||
		programs[0].name != "pawl-work-server-linux-x64-0.1.0.tgz" {
		t.Fatal(sdk.name, programs, err)
	}
	files, err := untarred(sdk.data)
	if err != nil || len(files) != 2 || files[1].name != "bin/pawl.js" || files[1].mode != 0o755 {
		t.Fatal(files, err)
	}
	if !regexp.MustCompile(`"types": "t",\s*"default": "d"`).Match(files[0].data) {
		t.Errorf("%s: the types are not asked for first", files[0].data)
	}
	var p struct {
		Bin      map[string]string
		Optional map[string]string `json:"optionalDependencies"`
	}
	if err := json.Unmarshal(files[0].data, &p); err != nil || p.Bin["pawl"] != "bin/pawl.js" || len(p.Optional) != 2 ||
		p.Optional["@pawl-work/server-darwin-arm64"] != "0.1.0" {
		t.Errorf("%s: %v", files[0].data, err)
	}
}

// The image says what Containerfile says.
func TestTheImageIsThatOfTheContainerfile(t *testing.T) {
	if _, err := os.Stat(certificates); err != nil {
		t.Skip("this machine has no " + certificates)
	}
	data, err := image([]*built{linux, mac}, at)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../../Containerfile")
	if err != nil {
		t.Fatal(err)
	}
	for _, says := range []struct{ file, image string }{
		{"USER 65532:65532", `"User":"65532:65532"`}, {"WORKDIR /data", `"WorkingDir":"/data"`}, {"VOLUME /data", `"Volumes":{"/data":{}}`},
		{"EXPOSE 7033", `"ExposedPorts":{"7033/tcp":{}}`}, {"ENV PAWL_DB=sqlite:/data/pawl.db", `"Env":["PAWL_DB=sqlite:/data/pawl.db"]`},
		{"STOPSIGNAL SIGTERM", `"StopSignal":"SIGTERM"`},
		{`ENTRYPOINT ["/pawl"]`, `"Entrypoint":["/pawl"]`}, {`CMD ["serve"]`, `"Cmd":["serve"]`},
		{"", `"architecture":"amd64"`}, {"", `"org.opencontainers.image.ref.name"`},
	} {
		if !strings.Contains(string(raw), says.file+"\n") && says.file != "" || !bytes.Contains(data, []byte(says.image)) {
			t.Errorf("Containerfile says %s, the image is to say %s", says.file, says.image)
		}
	}
	if bytes.Contains(data, []byte("darwin")) {
		t.Error("an image is for macOS")
	}
}

// The chart takes the URL of the database from a secret, and has what keeps a server alive and apart.
func TestTheChart(t *testing.T) {
	chart, err := chartOf("../../deploy/helm/pawl", at)
	if err != nil || chart.name != "pawl-0.1.0.tgz" {
		t.Fatal(chart.name, err)
	}
	files, err := untarred(chart.data)
	if err != nil {
		t.Fatal(err)
	}
	text := ""
	for _, f := range files {
		text += string(f.data)
	}
	for _, has := range []string{"secretKeyRef:", "startupProbe:", "livenessProbe:", "readinessProbe:", "kind: PodDisruptionBudget",
		"kind: NetworkPolicy", "kind: ScaledObject", "pawl_items{", "runAsNonRoot: true", "kind: Job", `args: ["key", "bootstrap", "--if-none"]`,
		"kind: PodMonitor", "svc.cluster.local", "PAWL_SERVE_NOTICE",
		"targetLabel: job, replacement: pawl", "helm.sh/hook: pre-install", "before-hook-creation", ".Values.startupSeconds"} {
		if !strings.Contains(text, has) {
			t.Errorf("the chart lacks %s", has)
		}
	}
	if strings.Contains(text, "kubectl exec") { // without a key no server runs in which it could
		t.Error("the first key needs a server that runs")
	}
}
