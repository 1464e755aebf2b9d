package worker_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/pawl-work/pawl/pawltest"
)

func TestMain(m *testing.M) {
	pawltest.Main(m, func() error { return goleak.Find() })
}
