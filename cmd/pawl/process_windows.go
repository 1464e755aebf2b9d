package main

import (
	"errors"
	"os"
	"os/exec"
)

var errNotHere = errors.New("processes cannot be frozen on Windows; run the demo on Linux, macOS or a BSD")

func group(*exec.Cmd) {}

func terminate(cmd *exec.Cmd) error { return cmd.Process.Kill() }
func kill(cmd *exec.Cmd)            { _ = cmd.Process.Kill() }
func killGroup(int)                 {}

func freeze() error          { return errNotHere }
func thaw(*os.Process) error { return errNotHere }

func wasKilled(err error) bool {
	var exit *exec.ExitError
	return errors.As(err, &exit) && exit.ExitCode() == 1
}
