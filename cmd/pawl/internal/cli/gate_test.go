package cli

import (
	"testing"

	"github.com/knadh/koanf/v2"
)

// Numbers of a variable, which is JSON, are read as they were written.
func TestNumbersOfUpstreams(t *testing.T) {
	a := &App{Env: []string{`PAWL_GATE_UPSTREAMS={"pay": {"url": "http://x", "amount": 25e6, "headers": {"X-A": 9007199254740993}}}`}}
	k := koanf.New(".")
	if err := a.loadEnv(k, []string{"gate.upstreams"}); err != nil {
		t.Fatal(err)
	}
	var c gateConfig
	if err := k.Unmarshal("gate", &c); err != nil {
		t.Fatal(err)
	}
	u := c.Upstreams["pay"].Upstream()
	if u.Amount != "25000000" || u.Headers["X-A"] != "9007199254740993" {
		t.Errorf("the amount is %s, the headers %s", u.Amount, u.Headers)
	}
}
