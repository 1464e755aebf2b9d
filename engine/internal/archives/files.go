package archives

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/klauspost/compress/zstd"

	"github.com/pawl-work/pawl"
)

const (
	// maxWindow bounds the memory that decompressing an archive takes. Archives are written with
	// windows of at most 8 MiB.
	maxWindow = 64 << 20
	// maxLine and maxRatio bound a line of a file of unknown origin: it has no more
	// than maxLine bytes and maxRatio for each byte of the file. The longest row of a table is one
	// of a message, with 16 MiB of JSON as a JSON text. The line of the log grows with the number
	// of events, and most of it are hashes, which cannot be compressed.
	maxLine  = 64 << 20
	maxRatio = 64
)

// load checks an archive and passes its lines to each.
func (s *Keeper) load(a Archived, each func(line []byte) error) error {
	if a.Segment != nil {
		return s.loadFromSegment(a, each)
	}
	in, done, err := s.source(a)
	if err != nil {
		return err
	}
	defer done()
	return eachLine(in, math.MaxInt64, each, func(err error) error { return unreadable(a.TaskID, err) })
}

// readFile passes the lines of an archive's file to each. It takes a bounded amount of memory,
// whatever the file has.
func readFile(path string, each func(line []byte) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	most := maxLine + maxRatio*info.Size()
	return eachLine(f, most, each, func(err error) error { return fmt.Errorf("%s is no archive, or is cut off: %w", path, err) })
}

// eachLine passes the lines of an archive to each; none may have more than most bytes. bad is the
// error for one that cannot be read.
func eachLine(in io.Reader, most int64, each func(line []byte) error, bad func(error) error) error {
	zip, err := zstd.NewReader(in, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxWindow))
	if err != nil {
		return bad(err)
	}
	defer zip.Close()
	lines := bufio.NewReaderSize(zip, 64<<10)
	for {
		line, err := readLine(lines, most)
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		if err != nil {
			return bad(err)
		}
		if err := each(line); err != nil {
			return err
		}
	}
}

// readLine reads a line of at most so many bytes.
func readLine(in *bufio.Reader, most int64) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if int64(len(line))+int64(len(part)) > most {
			return nil, fmt.Errorf("a line has more than %d bytes", most)
		}
		line = append(line, part...)
		if err != bufio.ErrBufferFull {
			return line, err
		}
	}
}

// source opens an archive and verifies its checksum.
func (s *Keeper) source(a Archived) (io.Reader, func(), error) {
	if a.Path == "" {
		sum := sha256.Sum256(a.Body)
		if hex.EncodeToString(sum[:]) != a.SHA256 {
			return nil, nil, unreadable(a.TaskID, errors.New("its checksum does not match"))
		}
		return bytes.NewReader(a.Body), func() {}, nil
	}
	f, err := s.openFile(a.Path)
	if err != nil {
		return nil, nil, unreadable(a.TaskID, err)
	}
	sum := sha256.New()
	if _, err = io.Copy(sum, f); err == nil && hex.EncodeToString(sum.Sum(nil)) != a.SHA256 {
		err = errors.New("its checksum does not match")
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, unreadable(a.TaskID, err)
	}
	return f, func() { _ = f.Close() }, nil
}

// openFile opens the file of an archive or segment.
func (s *Keeper) openFile(path string) (f *os.File, err error) {
	for _, path := range s.places(path) {
		if f, err = os.Open(path); !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return f, err
}

// Body reads the archive of a task from its file.
func (s *Keeper) Body(path, sha256 string) ([]byte, error) {
	var a Archived
	a.Path, a.SHA256 = path, sha256
	in, done, err := s.source(a)
	if err != nil {
		return nil, err
	}
	defer done()
	body, err := io.ReadAll(io.LimitReader(in, maxBody+1))
	if err == nil && len(body) > maxBody {
		err = errors.New("the archive is too large to be stored in the database")
	}
	return body, err
}

// places returns where an archive's file may be, first in the present directory: the directory was moved, or the database
// is a copy, whose files are beside it, and the path that it has is that of the original's file.
func (s *Keeper) places(path string) []string {
	if s.Dir == "" {
		return []string{path}
	}
	return []string{filepath.Join(s.Dir, filepath.Base(filepath.Dir(path)), filepath.Base(path)), path}
}

func unreadable(taskID string, err error) error {
	return &pawl.Error{
		Code:    pawl.CodeInternal,
		Op:      "restore",
		Message: "the archive of " + taskID + " cannot be read: " + err.Error(),
		Err:     err,
	}
}

// removeFiles removes the files of archives that no row refers to.
func (s *Keeper) removeFiles(ctx context.Context, unneeded []archived) {
	for _, a := range unneeded {
		s.removeFile(ctx, a.Path)
	}
}

// removeFile removes the file of an archive, if it has one. A file outside the directory may be that of another database,
// of which this one is a copy.
func (s *Keeper) removeFile(ctx context.Context, path string) {
	if path == "" {
		return
	}
	places := s.places(path)
	err := os.Remove(places[0])
	if !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			s.Log.WarnContext(ctx, "an archive that is not needed any more could not be removed", "path", places[0], "error", err)
		}
		return
	}
	if _, err := os.Stat(path); err == nil {
		s.Log.WarnContext(ctx, "an archive that is not needed any more is outside the directory for archives, and stays", "path", path)
	}
}
