package childproc

import (
	"errors"
	"os"
	"os/exec"
)

// SetGroup does nothing on Windows.
func SetGroup(*exec.Cmd) {}

// Terminate ends a program; on Windows it cannot be asked to stop.
func Terminate(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// Kill ends a program.
func Kill(cmd *exec.Cmd) { _ = cmd.Process.Kill() }

// KillGroup does nothing on Windows, which has no process groups.
func KillGroup(int) {}

var errFreeze = errors.New("processes cannot be frozen on Windows; run the demo on Linux, macOS or a BSD")

// Freeze returns an error on Windows.
func Freeze() error { return errFreeze }

// Thaw returns an error on Windows.
func Thaw(*os.Process) error { return errFreeze }

// WasKilled reports whether a program ended with exit code 1, as one that was killed.
func WasKilled(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 1
}
