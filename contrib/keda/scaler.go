package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/client"
	"github.com/pawl-work/pawl/internal/clock"
)

// metricName is the metric of a trigger. KEDA puts the number of the trigger before it.
const metricName = "pawl-items"

// maxScheduled is how many scheduled items of a type are read to find those that are due soon.
const maxScheduled = 10 * pawl.MaxPage

// scaler implements KEDA's external scaler, as it pulls and as it pushes.
type scaler struct {
	pb.UnimplementedExternalScalerServer
	server string        // of triggers that name none
	key    string        // the API key for server; it is never sent to another one
	every  time.Duration // how often StreamIsActive looks
	http   *http.Client
}

// trigger is the metadata of a trigger of a ScaledObject.
type trigger struct {
	server, key, namespace string
	types                  []string
	target, activation     int64
	dueSoon                time.Duration
}

// ofKEDA are members of the metadata that are meant for KEDA itself.
var ofKEDA = []string{"scalerAddress", "enableTLS", "unsafeSsl"}

// parse reads the metadata of a trigger.
func (s *scaler) parse(metadata map[string]string) (trigger, error) {
	t := trigger{server: s.server, namespace: pawl.DefaultNamespace, target: 10, dueSoon: 30 * time.Second}
	var bad []string
	number := func(name, text string, least, most int64) int64 {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < least || n > most {
			bad = append(bad, name+" must be an integer, "+strconv.FormatInt(least, 10)+"…"+strconv.FormatInt(most, 10))
		}
		return n
	}
	for name, text := range metadata {
		switch name {
		case "server":
			t.server = text
		case "apiKeyFromEnv":
			t.key = text // KEDA has replaced the name of the variable with its value
		case "namespace":
			t.namespace = text
		case "types":
			for typ := range strings.SplitSeq(text, ",") {
				if typ = strings.TrimSpace(typ); typ != "" && !slices.Contains(t.types, typ) {
					t.types = append(t.types, typ)
				}
			}
		case "targetItems":
			t.target = number(name, text, 1, 1_000_000)
		case "activationItems":
			t.activation = number(name, text, 0, 1_000_000)
		case "dueSoonSeconds":
			t.dueSoon = time.Duration(number(name, text, 0, 86_400)) * time.Second
		default:
			if !slices.Contains(ofKEDA, name) {
				bad = append(bad, name+" is unknown")
			}
		}
	}
	if t.key == "" && t.server == s.server {
		t.key = s.key
	}
	if t.server == "" {
		bad = append(bad, "server is missing")
	}
	if t.namespace == "" {
		bad = append(bad, "namespace is empty")
	}
	if len(t.types) == 0 {
		bad = append(bad, "types is missing: the types of items, with commas between them")
	}
	if bad != nil {
		slices.Sort(bad)
		return t, status.Error(codes.InvalidArgument, "metadata: "+strings.Join(bad, "; "))
	}
	return t, nil
}

// count returns how many items of the types are queued, leased or due soon.
func (s *scaler) count(ctx context.Context, t trigger) (n int64, err error) {
	c := client.NewWith(t.server, t.key, client.Options{HTTP: s.http, Timeout: 10 * time.Second, Tries: 2})
	ctx = pawl.As(ctx, pawl.Caller{Namespace: t.namespace})
	for _, typ := range t.types {
		q, err := c.GetQueue(ctx, typ)
		if errors.Is(err, pawl.ErrNotFound) {
			// No item of the type was ever created, or the key knows no such namespace.
			if _, err := c.ListQueues(ctx, pawl.Page{Limit: 1}); err != nil {
				return 0, grpcError(err)
			}
			continue
		}
		if err != nil {
			return 0, grpcError(err)
		}
		n += q.Queued + q.Leased
		if q.Scheduled > 0 && t.dueSoon > 0 {
			due, err := dueSoon(ctx, c, typ, clock.Now().Add(t.dueSoon))
			if err != nil {
				return 0, grpcError(err)
			}
			n += due
		}
	}
	return n, nil
}

// dueSoon returns how many scheduled items of a type are due before a time. It reads the oldest
// maxScheduled of them.
func dueSoon(ctx context.Context, c *client.Client, typ string, before time.Time) (n int64, err error) {
	f := pawl.ItemFilter{Types: []string{typ}, States: []pawl.ItemState{pawl.ItemScheduled}, Fields: []string{"id", "run_at"},
		Page: pawl.Page{Limit: pawl.MaxPage}}
	for range maxScheduled / pawl.MaxPage {
		list, err := c.ListItems(ctx, f)
		if err != nil {
			return 0, err
		}
		for _, it := range list.Items {
			if it.RunAt != nil && it.RunAt.Before(before) {
				n++
			}
		}
		if f.Cursor = list.Next; f.Cursor == "" {
			break
		}
	}
	return n, nil
}

// grpcError returns the gRPC error of an error of the client.
func grpcError(err error) error {
	code := codes.Unknown
	for _, c := range []struct {
		err  error
		code codes.Code
	}{
		{context.Canceled, codes.Canceled}, {context.DeadlineExceeded, codes.DeadlineExceeded},
		{pawl.ErrInvalid, codes.InvalidArgument}, {pawl.ErrUnauthenticated, codes.Unauthenticated},
		{pawl.ErrForbidden, codes.PermissionDenied}, {pawl.ErrNotFound, codes.NotFound},
		{pawl.ErrLimit, codes.ResourceExhausted}, {pawl.ErrUnavailable, codes.Unavailable},
	} {
		if errors.Is(err, c.err) {
			code = c.code
			break
		}
	}
	return status.Error(code, err.Error())
}

func (s *scaler) active(ctx context.Context, ref *pb.ScaledObjectRef) (bool, error) {
	t, err := s.parse(ref.GetScalerMetadata())
	if err != nil {
		return false, err
	}
	n, err := s.count(ctx, t)
	return n > t.activation, err
}

// IsActive reports whether there are more items than activationItems.
func (s *scaler) IsActive(ctx context.Context, ref *pb.ScaledObjectRef) (*pb.IsActiveResponse, error) {
	active, err := s.active(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &pb.IsActiveResponse{Result: active}, nil
}

// StreamIsActive sends what IsActive reports, at once and whenever it changes. It ends with the
// first error; KEDA opens another stream then.
func (s *scaler) StreamIsActive(ref *pb.ScaledObjectRef, stream grpc.ServerStreamingServer[pb.IsActiveResponse]) error {
	ctx, first, last := stream.Context(), true, false
	tick := time.NewTicker(s.every)
	defer tick.Stop()
	for {
		active, err := s.active(ctx, ref)
		if err != nil {
			return err
		}
		if first || active != last {
			if err := stream.Send(&pb.IsActiveResponse{Result: active}); err != nil {
				return err
			}
			first, last = false, active
		}
		select {
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		case <-tick.C:
		}
	}
}

// GetMetricSpec returns how many items each replica should have.
func (s *scaler) GetMetricSpec(_ context.Context, ref *pb.ScaledObjectRef) (*pb.GetMetricSpecResponse, error) {
	t, err := s.parse(ref.GetScalerMetadata())
	if err != nil {
		return nil, err
	}
	return &pb.GetMetricSpecResponse{MetricSpecs: []*pb.MetricSpec{
		{MetricName: metricName, TargetSize: t.target, TargetSizeFloat: float64(t.target)},
	}}, nil
}

// GetMetrics returns how many items are queued, leased or due soon.
func (s *scaler) GetMetrics(ctx context.Context, r *pb.GetMetricsRequest) (*pb.GetMetricsResponse, error) {
	if r.GetMetricName() != metricName {
		return nil, status.Errorf(codes.NotFound, "there is no metric %q, only %s", r.GetMetricName(), metricName)
	}
	t, err := s.parse(r.GetScaledObjectRef().GetScalerMetadata())
	if err != nil {
		return nil, err
	}
	n, err := s.count(ctx, t)
	if err != nil {
		return nil, err
	}
	return &pb.GetMetricsResponse{MetricValues: []*pb.MetricValue{
		{MetricName: metricName, MetricValue: n, MetricValueFloat: float64(n)},
	}}, nil
}
