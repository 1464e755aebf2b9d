// Package testserver starts temporary PostgreSQL, RabbitMQ and NATS servers that end
// with the process. PostgreSQL is fast for tests, or durable for measurements. The
// programs must be on the machine; nothing is installed.
package testserver

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

// Options configure a server.
type Options struct {
	// Durable keeps the server's files on a disk, never in memory, and waits for
	// that disk at every commit: fsync, synchronous_commit and full_page_writes
	// on, 1 GB of shared buffers, 200 connections, all else PostgreSQL's defaults.
	// Without it nothing waits for a disk, and a crash loses the data.
	Durable bool
	// Replicated lets standbys follow it; see Server.Standby.
	Replicated bool
	// Set are further settings, as name=value.
	Set []string
}

// Server is a running PostgreSQL on loopback. Stop it.
type Server struct {
	URL     string // of its superuser, who may create and drop databases
	Dir     string // all its files
	Version string

	options Options
	port    int
	process *process
}

const dirPrefix = "pawl-testserver-"

// Start creates a cluster and starts it. Its files are in memory if there is enough,
// else in the temporary directory; with Durable always on a disk. It fails if the
// machine has no PostgreSQL (see Find). The server ends with this process, even
// when the process is killed; ctx bounds the start alone.
func Start(ctx context.Context, o Options) (*Server, error) {
	bin, err := Find()
	if err != nil {
		return nil, err
	}
	owner, err := accountOf("postgres")
	if err != nil {
		return nil, err
	}
	dir, err := makeDir(owner, o)
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, options: o}
	if s.Version, err = initCluster(ctx, bin, dir, owner); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	for range 3 { // another program may take the free port before the server binds it
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.start(ctx, bin, owner); err == nil || ctx.Err() != nil {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// makeDir makes the server's directory.
func makeDir(owner *account, o Options) (string, error) {
	parent := os.TempDir()
	if o.Durable {
		var err error
		if parent, err = DiskDir(); err != nil {
			return "", err
		}
	} else if m := MemoryDir(); m != "" {
		parent = m
	}
	dir, err := Scratch(parent)
	if err == nil && owner != nil {
		err = os.Chown(dir, int(owner.uid), int(owner.gid))
	}
	return dir, err
}

// Scratch creates a directory under parent, which the caller removes. It also
// removes the directories of processes that were killed before they could.
func Scratch(parent string) (string, error) {
	RemoveOld(parent)
	return os.MkdirTemp(parent, fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
}

// RemoveOld removes the directories that Scratch made under a parent, or under any that this package
// uses, for processes that have ended since.
func RemoveOld(parents ...string) {
	for _, parent := range append(parents, memory, os.TempDir(), "/var/tmp") {
		old, _ := filepath.Glob(filepath.Join(parent, dirPrefix+"*"))
		for _, dir := range old {
			pid, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
			if n, err := strconv.Atoi(pid); err == nil && !alive(n) {
				_ = os.RemoveAll(dir)
			}
		}
	}
}

const memory = "/dev/shm"

// MemoryDir returns a directory for temporary files in memory, with at least 4 GiB
// free, from which programs may run; "" if there is none.
func MemoryDir() string {
	room, _ := RoomOf(memory)
	if inMemory(memory) && runnable(memory) && room.Bytes > 4<<30 {
		return memory
	}
	return ""
}

// Room is what a file system can still take.
type Room struct {
	System       uint64 // which one it is, on this machine
	Bytes, Files uint64
}

// DiskDir returns a directory for temporary files on a disk: the usual one, or
// /var/tmp if the usual one is in memory.
func DiskDir() (string, error) {
	dir := os.TempDir()
	if inMemory(dir) && !inMemory("/var/tmp") {
		dir = "/var/tmp"
	}
	if inMemory(dir) {
		return "", fmt.Errorf("%s is in memory: set TMPDIR to a directory on a disk", dir)
	}
	return dir, nil
}

// initCluster creates the cluster and returns its version. From PostgreSQL 15 on the
// default collation is en-US of ICU: a text key without COLLATE "C" then sorts
// differently than on SQLite, and a test finds it.
func initCluster(ctx context.Context, bin, dir string, owner *account) (string, error) {
	password := rand.Text()
	secret := filepath.Join(dir, "password")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return "", err
	}
	if owner != nil {
		if err := os.Chown(secret, int(owner.uid), int(owner.gid)); err != nil {
			return "", err
		}
	}
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("initdb: %w", err)
	}
	fields := strings.Fields(string(out)) // initdb (PostgreSQL) 15.14 (Debian …)
	if len(fields) < 3 {
		return "", fmt.Errorf("initdb --version printed no version: %q", out)
	}
	args := []string{"-D", filepath.Join(dir, "data"), "-U", "postgres", "--pwfile", secret,
		"--auth-local=scram-sha-256", "--auth-host=password", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync", "--no-instructions"}
	major, _, _ := strings.Cut(fields[2], ".")
	if n, err := strconv.Atoi(major); err == nil && n >= 15 {
		args = append(args, "--locale-provider=icu", "--icu-locale=en-US")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), args...)
	cmd.Dir = dir
	runAs(cmd, owner)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("initdb: %w\n%s", err, tail(string(out), 20))
	}
	return fields[2], nil
}

// alwaysSet are the settings of every server: its addresses, time zone and messages.
var alwaysSet = []string{"listen_addresses=127.0.0.1", "unix_socket_directories=", "timezone=UTC", "lc_messages=C", "log_checkpoints=off"}

// fast is for tests: no durability, many small databases and many connections. A statement gets its general plan at
// once: each of the many connections would plan it five times before, which took a quarter of the server's time.
var fast = []string{
	"fsync=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0", "max_wal_size=512MB",
	"max_connections=600", "shared_buffers=128MB", "max_prepared_transactions=20", "plan_cache_mode=force_generic_plan",
}

// durable is for measurements.
var durable = []string{"fsync=on", "synchronous_commit=on", "full_page_writes=on", "shared_buffers=1GB", "max_connections=200"}

// Settings returns the settings that differ from PostgreSQL's defaults.
func (o Options) Settings() []string {
	settings := fast
	if o.Durable {
		settings = durable
	}
	if o.Replicated {
		settings = append(slices.Clone(settings), "wal_level=replica", "max_wal_senders=4", "wal_keep_size=256MB")
	}
	return append(slices.Clone(settings), o.Set...)
}

func (s *Server) start(ctx context.Context, bin string, owner *account) error {
	password, err := os.ReadFile(filepath.Join(s.Dir, "password"))
	if err != nil {
		return err
	}
	log, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	args := []string{"-D", filepath.Join(s.Dir, "data"), "-p", strconv.Itoa(s.port)}
	for _, setting := range slices.Concat(alwaysSet, s.options.Settings()) {
		args = append(args, "-c", setting)
	}
	cmd := exec.Command(filepath.Join(bin, "postgres"), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.Dir, log, log
	if s.process, err = launch(cmd, owner, syscall.SIGQUIT); err != nil {
		return err
	}
	s.URL = fmt.Sprintf("postgres://postgres:%s@127.0.0.1:%d/postgres?sslmode=disable", password, s.port)
	return s.ready(ctx)
}

// ready waits until the server answers.
func (s *Server) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		conn, err := pgx.Connect(ctx, s.URL)
		if err == nil {
			return conn.Close(ctx)
		}
		select {
		case <-s.process.exited:
			log, _ := os.ReadFile(filepath.Join(s.Dir, "log"))
			return fmt.Errorf("PostgreSQL did not start:\n%s", tail(string(log), 20))
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not answer: %w", err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// PID is the server's first process; its other processes are children of it.
func (s *Server) PID() int { return s.process.pid() }

// Restart ends all sessions and starts the server again, at the same address and with its data.
func (s *Server) Restart(ctx context.Context) error {
	bin, err := Find()
	if err != nil {
		return err
	}
	owner, err := accountOf("postgres")
	if err != nil {
		return err
	}
	s.process.end(syscall.SIGINT)
	return s.start(ctx, bin, owner)
}

// Stop ends the server and removes its files. The error names files that could not be removed.
func (s *Server) Stop() error {
	if s.process != nil && s.process.cmd.Process != nil {
		_ = s.Thaw() // the process may have ended
	}
	s.process.end(syscall.SIGQUIT) // at once: there is nothing to save
	return os.RemoveAll(s.Dir)
}

func freePort() (int, error) {
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// Find returns the directory of the newest PostgreSQL's programs, or an error if
// there is none. Debian has one for each version, and none of them on PATH.
func Find() (string, error) {
	best, newest := "", -1
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	for _, path := range found {
		dir := filepath.Dir(path)
		version, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err == nil && version > newest {
			best, newest = dir, version
		}
	}
	if best != "" {
		return best, nil
	}
	if path, err := exec.LookPath("initdb"); err == nil {
		return filepath.Dir(path), nil
	}
	return "", errors.New("no PostgreSQL on this machine: install the package postgresql")
}

// tail is the last n lines of a text.
func tail(text string, n int) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
