package mcp

import (
	"context"
	"fmt"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/pawl-work/pawl"
)

// Clients give up on a call: the TypeScript SDK's after 60 s. A tool that waits is answered
// before that.
const (
	defaultWait   = 25 * time.Second
	progressEvery = 10 * time.Second
)

// waitOf returns how long a call waits: unless it says otherwise, defaultWait. A model that
// asks for more than the bound gets the bound: its answer says that the time is up.
func waitOf(seconds *int) (time.Duration, error) {
	switch {
	case seconds == nil:
		return defaultWait, nil
	case *seconds < 0:
		return 0, pawl.Invalid("/wait_seconds", "is to be 0 to %d", pawl.MaxMCPWait)
	}
	return time.Duration(min(*seconds, pawl.MaxMCPWait)) * time.Second, nil
}

// reportProgress tells the client of a call that it goes on, if the call carries a progress
// token, until stop is called. Clients that restart their time limit at each notification
// then wait for the answer. stop returns when no more notifications are sent.
func (s *Server) reportProgress(ctx context.Context, req *sdk.CallToolRequest) (stop func()) {
	token := req.Params.GetProgressToken()
	if token == nil || req.Session == nil {
		return func() {}
	}
	done := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		tick := time.NewTicker(s.progressEvery)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-done:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			waited := time.Duration(n) * s.progressEvery
			if req.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: waited.Seconds(),
				Message: fmt.Sprintf("The call has waited for %v.", waited)}) != nil {
				return // the client is gone
			}
		}
	})
	return func() {
		close(done)
		reporting.Wait()
	}
}
