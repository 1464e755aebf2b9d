package traces

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// blackHole accepts connections and never answers.
func blackHole(t *testing.T) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var held []net.Conn
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			held = append(held, c)
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range held {
			c.Close()
		}
	})
	return l.Addr().String()
}

// Neither a collector that does not answer nor one that is not there delays a call or the end of
// the program, and calls go on when the queue of spans is full.
func TestABrokenCollectorDelaysNothing(t *testing.T) {
	for name, address := range map[string]string{"silent": blackHole(t), "absent": "127.0.0.1:9"} {
		t.Run(name, func(t *testing.T) {
			var began time.Time
			t.Cleanup(func() { // the program has ended: it was started later
				if took := time.Since(began); took > 20*time.Second {
					t.Errorf("the program took %v to end", took)
				}
			})
			p := serve(t, "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+address, "OTEL_BSP_MAX_QUEUE_SIZE=8", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=4")
			began = time.Now()
			for range 200 {
				p.call("POST", "/v1/tasks", `{"type":"t","payload":{}}`, http.Header{"Traceparent": {creator}}, nil)
			}
			if took := time.Since(began); took > 20*time.Second {
				t.Errorf("200 calls took %v", took)
			}
			began = time.Now()
		})
	}
}

// The setting off is stronger than the variables. The task keeps the context that it was given.
func TestOffIsOff(t *testing.T) {
	p := serve(t, "PAWL_TRACE_ENDPOINT=off")
	p.call("POST", "/v1/tasks", `{"type":"t","payload":{}}`, http.Header{"Traceparent": {creator}}, nil)
	var claimed struct {
		Items []struct {
			TraceParent string `json:"traceparent"`
		} `json:"items"`
	}
	p.call("POST", "/v1/claims", `{"worker_id":"w1","types":["t"]}`, nil, &claimed)
	if len(claimed.Items) != 1 || claimed.Items[0].TraceParent != creator {
		t.Errorf("claimed %+v", claimed)
	}
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if got, ok := p.hook.event("t", "leased"); ok {
			if got.header.Get("Traceparent") != creator {
				t.Errorf("the webhook got %v", got.header)
			}
			break
		}
		if time.Now().After(end) {
			t.Fatal("the event was not relayed")
		}
	}
	if all := p.spans(""); len(all) > 0 {
		t.Errorf("there are %d spans\n%s", len(all), p.drawn(""))
	}
}
