// Command keda is an external scaler of KEDA: it scales workers by the number of items that are
// queued, leased or due soon at a Pawl server. See README.md.
package main

import (
	"context"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	pb "github.com/kedacore/keda/v2/pkg/scalers/externalscaler"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
)

func main() {
	addr := flag.String("addr", ":6000", "address of the gRPC server")
	cert := flag.String("tls-cert", "", "file of the certificate; empty = no TLS")
	key := flag.String("tls-key", "", "file of the certificate's key")
	every := flag.Duration("every", 5*time.Second, "how often a push trigger looks for a change")
	flag.Parse()
	if *every <= 0 {
		log.Fatal("--every must be over 0")
	}
	var options []grpc.ServerOption
	if *cert != "" || *key != "" {
		c, err := credentials.NewServerTLSFromFile(*cert, *key)
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(c))
	}
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		log.Fatal(err)
	}
	srv := newServer(&scaler{server: os.Getenv("PAWL_SERVER"), key: os.Getenv("PAWL_KEY"), every: *every, http: &http.Client{}}, options...)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		srv.Stop() // streams have no end of their own
	}()
	log.Printf("serving on %s", l.Addr())
	if err := srv.Serve(l); err != nil {
		log.Fatal(err)
	}
}

// newServer returns a gRPC server of the scaler, with the health service that Kubernetes probes.
func newServer(s *scaler, options ...grpc.ServerOption) *grpc.Server {
	srv := grpc.NewServer(options...)
	pb.RegisterExternalScalerServer(srv, s)
	grpc_health_v1.RegisterHealthServer(srv, health.NewServer())
	return srv
}
