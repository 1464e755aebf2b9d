package cli

import (
	"encoding/json"
	"testing"
)

// Numbers of a variable, which is JSON, are read as they were written.
func TestNumbersOfUpstreams(t *testing.T) {
	var amount, header any
	if err := json.Unmarshal([]byte("25000000"), &amount); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte("1000000"), &header); err != nil {
		t.Fatal(err)
	}
	u := UpstreamConfig{Amount: amount, Headers: map[string]any{"X-Account": header}}.Upstream()
	if u.Amount != "25000000" || u.Headers["X-Account"] != "1000000" {
		t.Errorf("the amount is %s, the header %s", u.Amount, u.Headers["X-Account"])
	}
}
