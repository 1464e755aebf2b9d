package server_test

import (
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
)

func TestMetrics(t *testing.T) {
	h := open(t)
	srv := h.srv
	for _, b := range []string{`{"type":"a","payload":1}`, `{"type":"a","payload":2}`, `{"type":"b","payload":1}`, `nonsense`} {
		resp, err := http.Post(srv.URL+"/v1/tasks", "application/json", strings.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
	}
	if _, err := h.p.Service.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"b"}}); err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequest("BREW", srv.URL+"/coffee", nil)
	if resp, err := http.DefaultClient.Do(req); err != nil {
		t.Fatal(err)
	} else {
		_ = resp.Body.Close()
	}
	resp, err := http.Get(srv.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, _ := io.ReadAll(resp.Body)
	for _, want := range []string{
		`(?m)^pawl_items\{namespace="[^"]+",state="queued",type="a"\} 2$`,
		`(?m)^pawl_items\{namespace="[^"]+",state="leased",type="b"\} 1$`,
		`(?m)^pawl_oldest_item_seconds\{namespace="[^"]+",state="queued",type="a"\} [0-9.e-]+$`,
		`(?m)^pawl_http_request_seconds_count\{method="POST",route="/v1/tasks",status="201"\} 3$`,
		`(?m)^pawl_http_request_seconds_count\{method="",route="",status="400"\} 1$`, // refused before it was routed
		`(?m)^pawl_http_request_seconds_count\{method="",route="",status="40[45]"\} 1$`,
		`(?m)^go_goroutines `,
	} {
		if !regexp.MustCompile(want).Match(raw) {
			t.Errorf("no line like %s in\n%s", want, raw)
		}
	}
}
