// Command payments is an agent that pays invoices through the gate of a server.
//
//	PAY_KEY=sk_… pawl serve --config examples/payments/pay.yaml
//	go run ./examples/payments -server http://127.0.0.1:7033
//
// It knows nothing of effects, and it never sees the credentials of the service: it calls the gate with the
// token of its lease. The gate pays once, however often the agent is killed.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/worker"
)

// invoice is the payload of a task.
type invoice struct {
	Number string `json:"number"`
	Cents  int64  `json:"cents"`
}

// receipt is what the service answers.
type receipt struct {
	Charge string `json:"charge"`
}

func main() {
	address := flag.String("server", "http://127.0.0.1:7033", "the server of Pawl")
	key := flag.String("key", "", "an API key with the role claimer; none on loopback")
	lease := flag.Int("lease", 60, "seconds after which the invoice of a dead agent is taken up again")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *address, *key, *lease); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context, address, key string, lease int) error {
	pay := worker.Handle("invoice", func(ctx context.Context, in invoice) (receipt, error) { return charge(ctx, address, in) })
	return worker.RunWith(ctx, client.New(address, key), worker.Options{LeaseSeconds: lease}, pay)
}

// charge pays an invoice through the gate. The token of the lease says who acts.
func charge(ctx context.Context, address string, in invoice) (out receipt, err error) {
	held, err := pawl.ItemFrom(ctx)
	if err != nil {
		return out, err
	}
	body, err := json.Marshal(in)
	if err != nil {
		return out, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, address+"/gate/pay/charge", bytes.NewReader(body))
	if err != nil {
		return out, err
	}
	r.Header.Set("Authorization", "Bearer "+held.Token)
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return out, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil {
		return out, err
	}
	var problem struct {
		ID       string `json:"id"`
		Code     string `json:"code"`
		EffectID string `json:"effect_id"`
	}
	_ = json.Unmarshal(text, &problem) // an answer of the service has none of these
	switch {
	case res.StatusCode == http.StatusAccepted: // a person must approve it
		return out, decided(ctx, problem.ID)
	case problem.Code == string(pawl.CodeEffectUnknown): // a person must say whether it happened
		return out, decided(ctx, problem.EffectID)
	case res.StatusCode != http.StatusOK:
		return out, fmt.Errorf("the gate answers %s: %s", res.Status, text)
	}
	return out, json.Unmarshal(text, &out)
}

// decided gives the invoice up until a person has decided about an effect. Then the handler runs again.
func decided(ctx context.Context, effect string) error {
	if _, err := pawl.WaitFor[any](ctx, "effect "+effect, pawl.EffectSignal, effect); err != nil {
		return err
	}
	return fmt.Errorf("effect %s is not decided", effect) // it was, and is unknown again: try later
}
