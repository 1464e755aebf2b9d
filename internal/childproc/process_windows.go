package childproc

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/windows"
)

// SetGroup does nothing on Windows.
func SetGroup(*exec.Cmd) {}

// Terminate ends a program; on Windows it cannot be asked to stop.
func Terminate(cmd *exec.Cmd) error { return cmd.Process.Kill() }

// Kill ends a program. It reports whether the program ran.
func Kill(cmd *exec.Cmd) bool { return cmd.Process.Kill() == nil }

// KillGroup does nothing on Windows, which has no process groups.
func KillGroup(int) bool { return false }

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

// KillChildrenAtEnd puts this process into a job object, to which all that it starts
// belongs from then on. The only handle of the job closes when this process ends, even
// when it is killed; the system then ends what is left in the job.
func KillChildrenAtEnd() error {
	job, err := windows.CreateJobObject(nil, nil) // the handle is not inherited
	if err != nil {
		return fmt.Errorf("job object: %w", err)
	}
	info := windows.JOBOBJECT_EXTENDED_LIMIT_INFORMATION{
		BasicLimitInformation: windows.JOBOBJECT_BASIC_LIMIT_INFORMATION{LimitFlags: windows.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE}}
	_, err = windows.SetInformationJobObject(
		job,
		windows.JobObjectExtendedLimitInformation,
		uintptr(unsafe.Pointer(&info)),
		uint32(unsafe.Sizeof(info)),
	)
	if err == nil {
		err = windows.AssignProcessToJobObject(job, windows.CurrentProcess())
	}
	if err != nil {
		_ = windows.CloseHandle(job)
		return fmt.Errorf("job object: %w", err)
	}
	return nil
}
