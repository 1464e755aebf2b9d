package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/pawltest"
)

// With two connections, one of them for calls, a transaction waits for no second one: not for the limits of
// queues, which this process has not read for a while, nor for gates, nor to use blobs.
func TestATransactionWaitsForNoSecondConnection(t *testing.T) {
	t.Parallel()
	server, schema := pawltest.Place(t, pawltest.Postgres)
	e := need[*engine.Engine](t)(engine.OpenWith(t.Context(), with(t, server, "max_conns", "2"), engine.Options{Schema: schema}))
	t.Cleanup(func() { _ = e.Close() })
	need[pawl.Queue](t)(e.SetQueue(t.Context(), "k", []byte(`{"per_key":{"pointer":"/k","concurrency":1}}`)))
	parent := need[pawl.Task](t)(pawl.Create(t.Context(), e, pawl.NewTask{Type: "p"}))
	l := need[[]pawl.Lease](t)(e.Claim(t.Context(), pawl.ClaimRequest{WorkerID: "w", Types: []string{"p"}}))[0]
	var blobs []string
	for _, content := range []string{"a", "b"} {
		b := need[pawl.Blob](t)(e.PutBlob(t.Context(), pawl.BlobUpload{Content: strings.NewReader(content)}))
		blobs = append(blobs, b.Address)
	}
	created := func(ctx context.Context, svc pawl.Service, payload string) error {
		_, err := pawl.Create(ctx, svc, pawl.NewTask{Type: "k", Payload: json.RawMessage(payload)})
		return err
	}
	spawned := func(ctx context.Context, svc pawl.Service, key string) error {
		_, err := first(svc.Spawn(ctx, []pawl.SpawnCall{{Fence: l.Fence(), Key: key, Task: pawl.NewTask{Type: "k",
			Payload: fmt.Appendf(nil, `{"k":%q}`, key)}}}))
		return err
	}
	once := func(key string, calls ...func(ctx context.Context, svc pawl.Service) error) func(ctx context.Context) error {
		return func(ctx context.Context) error {
			_, _, err := e.Idempotent(ctx, pawl.KeyBegin{Scope: "s", Key: key, RequestHash: "h"},
				func(ctx context.Context, svc pawl.Service) (*pawl.Answer, error) {
					for _, call := range calls {
						if err := call(ctx, svc); err != nil {
							return nil, err
						}
					}
					return &pawl.Answer{}, nil
				})
			return err
		}
	}
	create := func(payload string) func(context.Context, pawl.Service) error {
		return func(ctx context.Context, svc pawl.Service) error { return created(ctx, svc, payload) }
	}
	for name, call := range map[string]func(ctx context.Context) error{
		"spawn": func(ctx context.Context) error { return spawned(ctx, e, "a") },
		"add": func(ctx context.Context) error {
			_, err := first(e.AddItems(ctx, []pawl.AddItems{{TaskID: parent.ID, Items: []pawl.NewItem{{Type: "k"}}}}))
			return err
		},
		"keyed": once("1", create(`{"k":"b"}`), create(`{"k":"c"}`), create(`{"k":"c"}`),
			func(ctx context.Context, svc pawl.Service) error { return spawned(ctx, svc, "d") }),
		"blobs": once("2", create(fmt.Sprintf(`{"$blob":%q}`, blobs[0])), create(fmt.Sprintf(`{"$blob":%q}`, blobs[1])),
			create(fmt.Sprintf(`{"$blob":%q}`, blobs[1]))),
	} {
		time.Sleep(600 * time.Millisecond) // as long as limits are known
		began := time.Now()
		if err := call(t.Context()); err != nil {
			t.Errorf("%s: %v after %v", name, err, time.Since(began))
		}
	}
	r := need[pawl.DoctorReport](t)(e.Doctor(t.Context(), pawl.DoctorCall{}))
	if len(r.Breaches) > 0 {
		t.Error(r.Breaches)
	}
}
