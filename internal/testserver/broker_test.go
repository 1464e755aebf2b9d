package testserver

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"testing"
)

// A broker answers, and answers again after a crash. After Stop nothing is left.
func TestBrokersLeaveNothing(t *testing.T) {
	for name, c := range map[string]struct {
		find func() (string, error)
		make func() (*Broker, error)
	}{
		"RabbitMQ": {FindRabbitMQ, NewRabbitMQ},
		"NATS":     {FindNATS, NewNATS},
		"PgBouncer": {FindPgBouncer, func() (*Broker, error) {
			return NewPooler(t.Context(), "postgres://nobody@127.0.0.1:1/none", 1) // it answers without a server
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := c.find(); err != nil {
				t.Skip(err.Error())
			}
			b, err := c.make()
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := b.Ready(t.Context()); err != nil {
					t.Error(err)
				}
				b.Kill()
				if conn, err := net.Dial("tcp", b.addr); err == nil {
					_ = conn.Close()
					t.Error("the broker answers after Kill")
				}
				if err := b.Start(); err != nil {
					t.Error(err)
				}
			}
			if err := b.Stop(); err != nil {
				t.Error(err)
			}
			if _, err := os.Stat(b.Dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s is still there: %v", b.Dir, err)
			}
		})
	}
}
