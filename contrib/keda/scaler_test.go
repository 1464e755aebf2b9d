package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/access"
	"github.com/pawl-work/pawl/pawltest"
	"github.com/pawl-work/pawl/server"
)

// fixture is a Pawl server that requires keys, and a scaler that has one of the role reader, as
// KEDA's own client sees it.
type fixture struct {
	*testing.T
	pawl   *pawltest.Pawl
	server *httptest.Server
	keda   pb.ExternalScalerClient
	conn   *grpc.ClientConn
}

func open(t *testing.T) *fixture {
	t.Helper()
	p := pawltest.OpenReal(t, pawltest.SQLite)
	log := slog.New(slog.DiscardHandler)
	srv := httptest.NewServer(server.New(p.Service, server.Options{Log: log,
		Gate: access.New(access.Options{Keys: p.Engine, Required: true, Log: log})}))
	t.Cleanup(srv.Close)
	f := &fixture{T: t, pawl: p, server: srv}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	f.pawl.OK(err)
	web := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(web.CloseIdleConnections)
	scaling := newServer(&scaler{server: srv.URL, key: f.key("reader"), every: 20 * time.Millisecond, http: web})
	served := make(chan error, 1)
	go func() { served <- scaling.Serve(l) }()
	t.Cleanup(func() {
		scaling.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	f.conn, err = grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	f.pawl.OK(err)
	t.Cleanup(func() { _ = f.conn.Close() })
	f.keda = pb.NewExternalScalerClient(f.conn)
	return f
}

// key returns the token of a new key.
func (f *fixture) key(roles ...string) string {
	f.Helper()
	_, token, err := f.pawl.Engine.CreateAPIKey(f.Context(), pawl.NewAPIKey{Name: "keda", Roles: roles})
	f.pawl.OK(err)
	return token
}

func (f *fixture) create(typ string, at *time.Time) {
	f.Helper()
	f.pawl.Create(pawl.NewTask{Type: typ, Payload: json.RawMessage("1"), RunAt: at})
}

// ref is a ScaledObject whose metadata alternates between names and values.
func ref(metadata ...string) *pb.ScaledObjectRef {
	r := &pb.ScaledObjectRef{Name: "workers", Namespace: "pawl", ScalerMetadata: map[string]string{"types": "a"}}
	for i := 0; i < len(metadata); i += 2 {
		r.ScalerMetadata[metadata[i]] = metadata[i+1]
	}
	return r
}

// want checks the metric, and whether the ScaledObject is active.
func (f *fixture) want(what string, r *pb.ScaledObjectRef, items int64, active bool) {
	f.Helper()
	m, err := f.keda.GetMetrics(f.Context(), &pb.GetMetricsRequest{ScaledObjectRef: r, MetricName: metricName})
	f.pawl.OK(err)
	if v := m.MetricValues; len(v) != 1 || v[0].MetricName != metricName || v[0].MetricValue != items ||
		v[0].MetricValueFloat != float64(items) {
		f.Errorf("%s: %v, want %d", what, m, items)
	}
	a, err := f.keda.IsActive(f.Context(), r)
	f.pawl.OK(err)
	if a.Result != active {
		f.Errorf("%s: active is %t", what, a.Result)
	}
}

func TestItemsAreCounted(t *testing.T) {
	f := open(t)
	f.want("a type that no item has", ref(), 0, false)
	for range 3 {
		f.create("a", nil)
	}
	f.create("b", nil)
	f.want("queued", ref(), 3, true)
	f.want("two types, one of them twice", ref("types", "a, b,a"), 4, true)
	f.want("activation", ref("activationItems", "3"), 3, false)
	f.want("activation exceeded", ref("activationItems", "2"), 3, true)
	var held []pawl.Fence
	for range 3 {
		held = append(held, f.pawl.Claim("a").Fence())
	}
	f.want("leased", ref(), 3, true)
	for _, fence := range held {
		_, err := pawl.Complete(f.Context(), f.pawl.Service, fence, nil)
		f.pawl.OK(err)
	}
	f.want("done", ref(), 0, false)

	soon, later := time.Now().Add(20*time.Minute), time.Now().Add(3*time.Hour)
	f.create("a", &soon)
	f.create("a", &later)
	f.want("none due within 30 s", ref(), 0, false)
	f.want("one due within an hour", ref("dueSoonSeconds", "3600"), 1, true)
	f.want("both due within a day", ref("dueSoonSeconds", "86400"), 2, true)
	f.want("scheduled items do not count", ref("dueSoonSeconds", "0"), 0, false)
}

func TestMetricSpec(t *testing.T) {
	f := open(t)
	for target, r := range map[int64]*pb.ScaledObjectRef{10: ref(), 7: ref("targetItems", "7", "scalerAddress", "keda:6000")} {
		got, err := f.keda.GetMetricSpec(t.Context(), r)
		f.pawl.OK(err)
		if s := got.MetricSpecs; len(s) != 1 || s[0].MetricName != metricName || s[0].TargetSize != target ||
			s[0].TargetSizeFloat != float64(target) {
			t.Errorf("%v, want %d", got, target)
		}
	}
	// KEDA goes on without a stream of specifications.
	stream, err := f.keda.StreamMetricSpec(t.Context(), ref())
	f.pawl.OK(err)
	if _, err := stream.Recv(); status.Code(err) != codes.Unimplemented {
		t.Error(err)
	}
	h, err := grpc_health_v1.NewHealthClient(f.conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if f.pawl.OK(err); h.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Error(h)
	}
}

// A stream says at once whether there is work, and then each change, until the server is gone.
func TestChangesAreStreamed(t *testing.T) {
	f := open(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	stream, err := f.keda.StreamIsActive(ctx, ref())
	f.pawl.OK(err)
	next := func(want bool) {
		t.Helper()
		got, err := stream.Recv()
		if f.pawl.OK(err); got.Result != want {
			t.Errorf("%t, want %t", got.Result, want)
		}
	}
	next(false)
	f.create("a", nil)
	next(true)
	fence := f.pawl.Claim("a").Fence()
	_, err = pawl.Complete(ctx, f.pawl.Service, fence, nil)
	f.pawl.OK(err)
	next(false)
	f.server.Close()
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("%v, want Unavailable", err)
	}
}

func TestErrors(t *testing.T) {
	f := open(t)
	f.create("a", nil)
	metadata := func(m ...string) *pb.ScaledObjectRef { return ref(m...) }
	for what, c := range map[string]struct {
		ref  *pb.ScaledObjectRef
		code codes.Code
		says string
	}{
		"no types":        {metadata("types", " ,"), codes.InvalidArgument, "types is missing"},
		"no metadata":     {nil, codes.InvalidArgument, "types is missing"},
		"unknown member":  {metadata("targetitems", "3"), codes.InvalidArgument, "targetitems is unknown"},
		"no number":       {metadata("targetItems", "x"), codes.InvalidArgument, "targetItems must be"},
		"target 0":        {metadata("targetItems", "0"), codes.InvalidArgument, "targetItems must be"},
		"activation":      {metadata("activationItems", "-1"), codes.InvalidArgument, "activationItems must be"},
		"due soon":        {metadata("dueSoonSeconds", "99999999999999999999"), codes.InvalidArgument, "dueSoonSeconds must be"},
		"no URL":          {metadata("server", "pawl:7033"), codes.InvalidArgument, "pawl:7033"},
		"a Unix socket":   {metadata("server", "unix:/run/pawl"), codes.InvalidArgument, "socket"},
		"empty namespace": {metadata("namespace", ""), codes.InvalidArgument, "namespace is empty"},
		"of others":       {metadata("namespace", "theirs"), codes.NotFound, "theirs"},
		"bad key":         {metadata("apiKeyFromEnv", "pawl_nonsense"), codes.Unauthenticated, "key"},
		"wrong role":      {metadata("apiKeyFromEnv", f.key("claimer")), codes.PermissionDenied, "reader"},
	} {
		_, err := f.keda.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: c.ref, MetricName: metricName})
		if status.Code(err) != c.code || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: metrics: %v, want %s", what, err, c.code)
		}
		if _, again := f.keda.IsActive(t.Context(), c.ref); status.Code(again) != c.code {
			t.Errorf("%s: active: %v, want %s", what, again, c.code)
		}
		if stream, err := f.keda.StreamIsActive(t.Context(), c.ref); err != nil {
			t.Error(err)
		} else if _, err := stream.Recv(); status.Code(err) != c.code {
			t.Errorf("%s: stream: %v, want %s", what, err, c.code)
		}
	}
	_, err := f.keda.GetMetrics(t.Context(), &pb.GetMetricsRequest{ScaledObjectRef: ref(), MetricName: "other"})
	if status.Code(err) != codes.NotFound {
		t.Error(err)
	}
	f.server.Close()
	if _, err := f.keda.IsActive(t.Context(), ref()); status.Code(err) != codes.Unavailable {
		t.Errorf("a server that is down: %v", err)
	}
}

// The scaler's own key is sent to no server that a trigger names.
func TestTheKeyStaysHere(t *testing.T) {
	f := open(t)
	var got []string
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = append(got, r.Header.Get("Authorization"))
		http.Error(w, "no", http.StatusTeapot)
	}))
	defer other.Close()
	for _, m := range [][]string{{"server", other.URL}, {"server", other.URL, "apiKeyFromEnv", "mine"}} {
		if _, err := f.keda.IsActive(t.Context(), ref(m...)); err == nil {
			t.Error("an answer that is not Pawl's has no error")
		}
	}
	if fmt.Sprint(got) != "[ Bearer mine]" {
		t.Errorf("%q", got)
	}
}
