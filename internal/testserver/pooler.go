package testserver

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
)

// NewPooler starts a PgBouncer in front of a PostgreSQL server: a pooler of transactions with
// the given number of sessions. Its URL is of the same database. It waits until the pooler answers.
func NewPooler(ctx context.Context, server string, sessions int) (*Broker, error) {
	bin, err := FindPgBouncer()
	if err != nil {
		return nil, err
	}
	u, err := url.Parse(server)
	if err != nil {
		return nil, errors.New("the URL of the server is none")
	}
	owner, err := accountOf("postgres")
	if err != nil {
		return nil, err
	}
	b, password, err := newBroker("postgres", owner)
	if err != nil {
		return nil, err
	}
	to := "host=" + u.Hostname()
	if u.Port() != "" {
		to += " port=" + u.Port()
	}
	secret, _ := u.User.Password()
	for name, value := range map[string]string{"user": u.User.Username(), "password": secret} {
		if value != "" {
			to += fmt.Sprintf(" %s='%s'", name, strings.ReplaceAll(value, "'", "''"))
		}
	}
	host, port, _ := net.SplitHostPort(b.addr)
	config := strings.Join([]string{
		"[databases]", "* = " + to,
		"[pgbouncer]", "pool_mode = transaction", fmt.Sprint("default_pool_size = ", sessions),
		"listen_addr = " + host, "listen_port = " + port, "unix_socket_dir =",
		"auth_type = plain", "auth_file = " + filepath.Join(b.Dir, "users"),
		"max_client_conn = 1000", "log_connections = 0", "log_disconnections = 0", "server_connect_timeout = 5", "server_login_retry = 1",
	}, "\n")
	if err := errors.Join(b.write("users", fmt.Sprintf("%q %q", "pawl", password)), b.write("ini", config)); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	b.commands = []func() *exec.Cmd{func() *exec.Cmd { return exec.Command(bin, filepath.Join(b.Dir, "ini")) }}
	b.URL += u.Path + "?sslmode=disable"
	if err := b.startOrStop(); err != nil {
		return nil, err
	}
	if err := b.Ready(ctx); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// FindPgBouncer returns the program of PgBouncer, or an error if there is none.
func FindPgBouncer() (string, error) {
	for _, path := range []string{"pgbouncer", "/usr/sbin/pgbouncer"} {
		if path, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no PgBouncer on this machine: install the package pgbouncer")
}
