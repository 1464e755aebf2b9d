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
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Broker is a RabbitMQ or NATS server on loopback, with a password. The caller stops
// it. Like every server of this package it ends with this process.
type Broker struct {
	URL string // of a user with all permissions
	Dir string // all its files

	name, addr string
	who        *account
	commands   []func() *exec.Cmd // the server last
	processes  []*process
}

// NewNATS creates and starts a NATS server with JetStream; see Broker.Ready.
func NewNATS() (*Broker, error) {
	bin, err := FindNATS()
	if err != nil {
		return nil, err
	}
	b, password, err := newBroker("nats", nil)
	if err != nil {
		return nil, err
	}
	host, port, _ := net.SplitHostPort(b.addr)
	b.commands = []func() *exec.Cmd{func() *exec.Cmd {
		return exec.Command(bin, "-a", host, "-p", port, "-js", "-sd", filepath.Join(b.Dir, "jetstream"), "--user", "pawl", "--pass", password)
	}}
	return b, b.startOrStop()
}

// NewRabbitMQ creates and starts a RabbitMQ server; see Broker.Ready. Erlang nodes
// need epmd, a directory of names: the server has its own and does not register
// with the machine's.
func NewRabbitMQ() (*Broker, error) {
	bin, err := FindRabbitMQ()
	if err != nil {
		return nil, err
	}
	owner, err := accountOf("rabbitmq")
	if err != nil {
		return nil, err
	}
	b, password, err := newBroker("amqp", owner)
	if err != nil {
		return nil, err
	}
	names, err1 := freePort()
	peers, err2 := freePort()
	if err := errors.Join(err1, err2, b.write("rabbitmq.conf", strings.Join([]string{
		"listeners.tcp.1 = " + b.addr,
		"default_user = pawl",
		"default_pass = " + password,
		"log.console.level = warning",
		"disk_free_limit.absolute = 64MB", // its default may be more than a small machine has
	}, "\n")), b.write("plugins", "[].")); err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	env := append(os.Environ(),
		"HOME="+b.Dir, // of the cookie
		"RABBITMQ_NODENAME=pawl-"+strings.ToLower(rand.Text()[:8])+"@localhost",
		"RABBITMQ_DIST_PORT="+strconv.Itoa(peers),
		"RABBITMQ_MNESIA_BASE="+filepath.Join(b.Dir, "data"),
		"RABBITMQ_LOGS=-", "RABBITMQ_LOG_BASE="+b.Dir, "ERL_CRASH_DUMP="+filepath.Join(b.Dir, "crash"),
		"RABBITMQ_PID_FILE="+filepath.Join(b.Dir, "pid"),
		"RABBITMQ_CONFIG_FILE="+filepath.Join(b.Dir, "rabbitmq.conf"),
		"RABBITMQ_CONF_ENV_FILE="+filepath.Join(b.Dir, "none"),
		"RABBITMQ_ENABLED_PLUGINS_FILE="+filepath.Join(b.Dir, "plugins"),
		"RABBITMQ_ALLOW_INPUT=1", // the script then becomes the server: one process, which Stop can end
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=+sbwt none +sbwtdcpu none +sbwtdio none "+ // idle schedulers sleep at once
			"-noinput -start_epmd false -kernel inet_dist_use_interface {127,0,0,1}",
		"ERL_EPMD_PORT="+strconv.Itoa(names), "ERL_EPMD_ADDRESS=127.0.0.1",
	)
	b.commands = []func() *exec.Cmd{
		func() *exec.Cmd { return exec.Command("epmd", "-port", strconv.Itoa(names), "-address", "127.0.0.1") },
		func() *exec.Cmd {
			cmd := exec.Command(bin)
			cmd.Env = env
			return cmd
		},
	}
	return b, b.startOrStop()
}

// newBroker creates a directory and finds a free port.
func newBroker(scheme string, owner *account) (b *Broker, password string, err error) {
	port, err := freePort()
	if err != nil {
		return nil, "", err
	}
	dir, err := makeDir(owner, Options{})
	if err != nil {
		return nil, "", err
	}
	password = rand.Text()
	b = &Broker{Dir: dir, name: scheme, who: owner, addr: net.JoinHostPort("127.0.0.1", strconv.Itoa(port))}
	b.URL = fmt.Sprintf("%s://pawl:%s@%s", scheme, password, b.addr)
	return b, password, nil
}

// write writes a file into the server's directory.
func (b *Broker) write(name, text string) error {
	path := filepath.Join(b.Dir, name)
	err := os.WriteFile(path, []byte(text+"\n"), 0o600)
	if err == nil && b.who != nil {
		err = os.Chown(path, int(b.who.uid), int(b.who.gid))
	}
	return err
}

func (b *Broker) startOrStop() error {
	if err := b.Start(); err != nil {
		return errors.Join(err, b.Stop())
	}
	return nil
}

// Start starts the server, also after Kill, on the same address and with the same
// files. It does not wait until the server answers; see Ready.
func (b *Broker) Start() error {
	log, err := os.Create(filepath.Join(b.Dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	for _, command := range b.commands {
		cmd := command()
		cmd.Dir, cmd.Stdout, cmd.Stderr = b.Dir, log, log
		p, err := launch(cmd, b.who, syscall.SIGKILL)
		if err != nil {
			return err
		}
		b.processes = append(b.processes, p)
	}
	return nil
}

// Ready waits until the server answers, at most 5 min.
func (b *Broker) Ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", b.addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-b.processes[len(b.processes)-1].exited:
			log, _ := os.ReadFile(filepath.Join(b.Dir, "log"))
			return fmt.Errorf("%s did not start:\n%s", b.name, tail(string(log), 20))
		case <-ctx.Done():
			return fmt.Errorf("%s does not accept connections: %w", b.name, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Kill sends SIGKILL to the server. Its files stay.
func (b *Broker) Kill() {
	for i := len(b.processes) - 1; i >= 0; i-- {
		b.processes[i].end(syscall.SIGKILL)
	}
	b.processes = nil
}

// Stop ends the server and removes its files. The error says which files could not
// be removed.
func (b *Broker) Stop() error {
	b.Kill()
	return os.RemoveAll(b.Dir)
}

// FindRabbitMQ returns RabbitMQ's program, or an error if there is none. It prefers
// the one outside PATH: Debian's on PATH can only start the machine's own server.
func FindRabbitMQ() (string, error) {
	if _, err := exec.LookPath("epmd"); err == nil {
		for _, path := range []string{"/usr/lib/rabbitmq/bin/rabbitmq-server", "rabbitmq-server"} {
			if path, err := exec.LookPath(path); err == nil {
				return path, nil
			}
		}
	}
	return "", errors.New("no RabbitMQ on this machine: install the package rabbitmq-server")
}

// FindNATS returns the program of the NATS server, or an error if there is none.
func FindNATS() (string, error) {
	for _, path := range []string{"nats-server", "/usr/sbin/nats-server"} {
		if path, err := exec.LookPath(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New("no NATS on this machine: install the package nats-server")
}
