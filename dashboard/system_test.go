package dashboard_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/pawltest"
)

// The overview begins with the work that no worker takes, and names the command that helps.
func TestWhatIsStuck(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h := open(t, p, false)
		h.flow() // a paused queue
		for range 3 {
			h.p.Create(pawl.NewTask{Type: "translate"})
		}
		got := h.get("/ui/")
		h.has(got, 200, "2 kinds of work do not go on", "translate</a>: 3 queued, and no live worker takes them", "no_worker",
			"pawl worker --type translate", "idle</a>: 1 queued", "pawl queue resume idle")
		if strings.Index(got.text, "translate</a>: 3") > strings.Index(got.text, "idle</a>: 1") {
			t.Error("the paused queue comes before the type without a worker")
		}
	})
}

// The page of types names the lease that would have avoided expiries, with the command that sets it.
func TestLeasesAreSuggested(t *testing.T) {
	pawltest.Each(t, func(t *testing.T, p *pawltest.Pawl) {
		h, ctx := open(t, p, false), t.Context()
		if got := h.get("/ui/types"); strings.Contains(got.text, "would avoid expiries") {
			t.Error("it suggests a lease, and nothing was measured")
		}
		if _, err := p.Service.PutTypes(ctx, []pawl.Type{{Name: "slow <b>", LeaseSeconds: 5}}); err != nil {
			t.Fatal(err)
		}
		h.p.Create(pawl.NewTask{Type: "slow <b>"})
		claim := func(worker string, seconds int) pawl.Fence {
			ls, err := p.Service.Claim(ctx, pawl.ClaimRequest{WorkerID: worker, Types: []string{"slow <b>"}, LeaseSeconds: seconds})
			if err != nil || len(ls) != 1 {
				t.Fatal(ls, err)
			}
			return ls[0].Fence()
		}
		claim("first", 5)
		p.Advance(6 * time.Second)
		if _, err := p.Service.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		f := claim("second", 60)
		p.Advance(8 * time.Second)
		if _, err := pawl.Complete(ctx, p.Service, f, nil); err != nil {
			t.Fatal(err)
		}
		h.get("/ui/types")
		for end := time.Now().Add(60 * time.Second); ; time.Sleep(50 * time.Millisecond) { // answers are kept for a moment
			got := h.get("/ui/types")
			if strings.Contains(got.text, "would avoid expiries") || time.Now().After(end) {
				h.has(got, 200, "has a lease of 5 s; suggested 10 s", "pawl type set &#39;slow &lt;b&gt;&#39; --lease 10s", "pawl type suggest")
				return
			}
		}
	})
}

// The form of a queue sets and removes limits; those of keys stay.
func TestLimitsOfAQueue(t *testing.T) {
	h := open(t, pawltest.Open(t, pawltest.SQLite), false)
	limits := pawl.QueuePatch(`{"per_worker":2,"per_key":{"pointer":"/k","concurrency":1}}`)
	if _, err := h.p.Service.SetQueue(t.Context(), "a", limits); err != nil {
		t.Fatal(err)
	}
	h.has(h.post("/ui/queues/a/limit", "concurrency", "5", "rate", "10", "seconds", "60"), 200, "5 leased at once", "10 starts in 60 s",
		"key /k", "1 of each key")
	q, err := h.p.Service.GetQueue(t.Context(), "a")
	if err != nil || q.PerWorker != nil || q.Concurrency == nil || *q.Concurrency != 5 || q.Rate == nil || q.PerKey == nil {
		t.Errorf("the limits are %+v, %v", q.QueueLimits, err)
	}
	h.has(h.post("/ui/queues/a/limit", "concurrency", "many"), 400, "is not a number")
	h.has(h.post("/ui/queues/a/limit", "rate", "10"), 400, "is missing")
	h.has(h.post("/ui/queues/a/limit", "concurrency", "0"), 400, "concurrency")
}

// A relay that is to leave out what it has not sent asks first.
func TestARelayGoesOnFromNowIfThatIsMeant(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := open(t, p, false)
	r, _, err := p.Engine.TakeRelay(t.Context(), "bus", "nats", "w", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	at := p.Now()
	r.DisabledAt = &at
	if _, err := p.Engine.KeepRelay(t.Context(), r, 0); err != nil {
		t.Fatal(err)
	}
	h.has(h.get("/ui/relays"), 200, `name="sure" value="bus" required`)
	h.has(h.post("/ui/relays/bus/resume", "from", "now"), 400, "left out")
	h.has(h.post("/ui/relays/bus/resume", "from", "now", "sure", "bus"), 200, "delivers")
}

// API keys are listed without their secret and revoked by an operator of all namespaces alone.
func TestKeysAreRevoked(t *testing.T) {
	p := pawltest.Open(t, pawltest.SQLite)
	h := open(t, p, true)
	key := func(namespace string, roles ...string) (pawl.APIKey, string) {
		k, token, err := p.Engine.CreateAPIKey(t.Context(), pawl.NewAPIKey{Name: "k", Namespace: namespace, Roles: roles})
		if err != nil {
			t.Fatal(err)
		}
		return k, token
	}
	victim, secret := key(pawl.DefaultNamespace, "reader")
	_, local := key(pawl.DefaultNamespace, "reader", "operator")
	_, admin := key(pawl.AnyNamespace, "reader", "operator")
	h.post("/ui/login", "key", local)
	for _, path := range []string{"/ui/keys", "/ui/relays", "/ui/sweeps"} {
		h.has(h.get(path), 403)
	}
	h.has(h.post("/ui/keys/"+victim.ID+"/revoke", "sure", victim.ID), 403)
	h.post("/ui/login", "key", admin)
	got := h.get("/ui/keys")
	h.has(got, 200, victim.ID, "valid")
	h.hasNot(got, secret, local, admin)
	h.has(h.post("/ui/keys/"+victim.ID+"/revoke"), 400, "for good")
	h.has(h.post("/ui/keys/"+victim.ID+"/revoke", "sure", victim.ID), 200, "revoked")
	if _, err := p.Engine.FindAPIKey(t.Context(), secret); pawl.CodeOf(err) != pawl.CodeUnauthenticated {
		t.Errorf("the revoked key: %v", err)
	}
}
