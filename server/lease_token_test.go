package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// A server of a program, without API keys, refuses the token of a lease what is not for a claimer.
func TestATokenOfALeaseAtAServerWithoutKeys(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	if _, err := pawl.Create(t.Context(), p.Service, pawl.NewTask{Type: "a", Payload: json.RawMessage("1")}); err != nil {
		t.Fatal(err)
	}
	leases, err := p.Engine.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w"})
	if err != nil || len(leases) != 1 {
		t.Fatal(leases, err)
	}
	if _, err := pawl.SaveCheckpoint(t.Context(), p.Engine, leases[0].Fence(),
		pawl.NewCheckpoint{Type: "state_transition", Name: "step", Snapshot: json.RawMessage(`"saved"`)}); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(server.New(p.Service, server.Options{}))
	t.Cleanup(srv.Close)
	for path, want := range map[string]int{"": http.StatusForbidden, "/resume": http.StatusOK} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", srv.URL+"/v1/items/"+leases[0].ID+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+leases[0].Token)
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if res.Body.Close(); res.StatusCode != want || err != nil {
			t.Errorf("GET %s: %d, %v", path, res.StatusCode, err)
		}
		if want == http.StatusOK && !strings.Contains(string(body), `"saved"`) {
			t.Errorf("the holder of the lease reads %s", body)
		}
	}
}
