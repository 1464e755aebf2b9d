package testserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

// Standby creates and starts a streaming standby of a server that was started with
// Options.Replicated. Its application_name is "standby"; it is asynchronous unless
// the primary's synchronous_standby_names contains that name. Further settings are
// name=value; one of PostgreSQL's recovery targets makes it a copy that ends there.
func (s *Server) Standby(ctx context.Context, set ...string) (*Server, error) {
	bin, err := Find()
	if err != nil {
		return nil, err
	}
	who, err := accountOf("postgres")
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(who, s.options)
	if err != nil {
		return nil, err
	}
	copied := &Server{Dir: dir, Version: s.Version, options: s.options}
	copied.options.Set = slices.Concat(s.options.Set, set)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "pg_basebackup"), "-d", s.URL+"&application_name=standby",
		"-D", filepath.Join(dir, "data"), "--checkpoint=fast", "--wal-method=stream", "--write-recovery-conf", "--no-sync")
	cmd.Dir = dir
	runAs(cmd, who)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.Join(fmt.Errorf("pg_basebackup: %w\n%s", err, tail(string(out), 20)), copied.Stop())
	}
	password, err := os.ReadFile(filepath.Join(s.Dir, "password"))
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "password"), password, 0o600)
	}
	if err == nil {
		copied.port, err = freePort()
	}
	if err == nil {
		err = copied.start(ctx, bin, who)
	}
	if err != nil {
		return nil, errors.Join(err, copied.Stop())
	}
	return copied, nil
}

// Promote makes a standby the primary, and returns when it accepts writes.
func (s *Server) Promote(ctx context.Context) error {
	c, err := pgx.Connect(ctx, s.URL)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	var done bool
	if err := c.QueryRow(ctx, "SELECT pg_promote(true, 60)").Scan(&done); err != nil {
		return err
	}
	if !done {
		return errors.New("the standby was not promoted within 60 s")
	}
	return nil
}

// CatchUp waits until a standby has replayed everything that its primary has written.
func (s *Server) CatchUp(ctx context.Context, primary *Server) error {
	c, err := pgx.Connect(ctx, primary.URL)
	if err != nil {
		return err
	}
	defer c.Close(context.WithoutCancel(ctx))
	for {
		var there bool
		err := c.QueryRow(
			ctx,
			"SELECT COALESCE(bool_and(replay_lsn >= pg_current_wal_lsn()), false) FROM pg_stat_replication WHERE application_name = 'standby'",
		).Scan(
			&there,
		)
		if err != nil || there {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
