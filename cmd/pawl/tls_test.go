package main

import (
	"bytes"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawl-work/pawl/api"
)

// A certificate that is not trusted is reported at once, with the flag to trust it. With its
// authority the server answers.
func TestTLSFailuresAreNamed(t *testing.T) {
	var asked int
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		w.Header().Set("Content-Type", api.ProblemType)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"code":"not_found","detail":"no such task"}`))
	}))
	defer srv.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: srv.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	none := filepath.Join(t.TempDir(), "none.pem")
	if err := os.WriteFile(none, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		exit int
		says string
	}{
		{nil, 6, "no TLS connection to the server (unavailable)\n  cause: Get \"" + srv.URL},
		{nil, 6, "--ca FILE"},
		{[]string{"--ca", ca}, 3, "no such task"},
		{[]string{"--ca", none}, 2, "contains no PEM certificate"},
		{[]string{"--ca", none + "x"}, 2, "no such file"},
	} {
		var said bytes.Buffer
		args := append([]string{"task", "get", "tsk_x", "--server", srv.URL}, c.args...)
		if got := run(args, os.Environ(), nil, &bytes.Buffer{}, &said); got != c.exit || !strings.Contains(said.String(), c.says) {
			t.Errorf("%v: exit %d, want %d: %s", c.args, got, c.exit, said.String())
		}
	}
	if asked != 1 {
		t.Errorf("%d calls came through", asked)
	}
}
