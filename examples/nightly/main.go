// Command nightly checks every file of a directory once a night and writes a report.
//
//	go run ./examples/nightly -dir /srv/files
//
// Each file is an item of one task, and the date is the task's unique key: the command
// can be started again at any time, also on several machines that share the database
// and the directory. It goes on with the files that have no result yet.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/pawl-work/pawl"
	"github.com/pawl-work/pawl/engine"
	"github.com/pawl-work/pawl/worker"
)

const fileCheck = "file.check" // the type of the task and its items

// checked is the result of one file.
type checked struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
	Gone   bool   `json:"gone,omitempty"` // it was removed before it was checked
}

func main() {
	var b batch
	flag.StringVar(&b.db, "db", "sqlite:nightly.db", "the database")
	flag.StringVar(&b.dir, "dir", ".", "the directory")
	flag.StringVar(&b.night, "night", time.Now().Format(time.DateOnly), "the date; each has one report")
	flag.StringVar(&b.report, "report", "report.json", "the file to write")
	flag.IntVar(&b.lease, "lease", 60, "seconds after which the files of a dead process are taken up again")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := b.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

type batch struct {
	db, dir, night, report string
	lease                  int
}

func (b batch) run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	eng, err := engine.Open(ctx, b.db)
	if err != nil {
		stop()
		return err
	}
	defer eng.Close()
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	work.Go(func() { _ = eng.Run(ctx) }) // takes up again what dead processes held

	task, err := b.create(ctx, eng)
	if err != nil {
		return err
	}
	slog.Info("the files of the night", "task_id", task.ID, "files", task.Items, "continued", task.Deduplicated)
	work.Go(func() {
		if err := worker.RunWith(ctx, eng, worker.Options{
			LeaseSeconds: b.lease, TaskID: task.ID, Logger: slog.New(slog.DiscardHandler),
		}, worker.Handle(fileCheck, b.check)); err != nil && ctx.Err() == nil {
			slog.Error("the worker ended", "err", err)
			stop()
		}
	})
	ended, err := pawl.Await(ctx, eng, task.ID)
	if err != nil {
		return err
	}
	if ended.State != pawl.TaskCompleted {
		return fmt.Errorf("task %s is %s: see pawl why %s --db %s", task.ID, ended.State, task.ID, b.db)
	}
	result, err := eng.TaskResult(ctx, task.ID)
	if err != nil {
		return err
	}
	return write(b.report, result.Payload)
}

// create creates the task of the night, or returns the one that exists.
func (b batch) create(ctx context.Context, eng *engine.Engine) (pawl.Task, error) {
	task := pawl.NewTask{
		Type: fileCheck, Title: "Files of " + b.night,
		Unique: &pawl.Unique{By: pawl.UniqueByKey, Key: b.night, WindowSeconds: 30 * 86400, OnConflict: pawl.OnConflictReturn},
	}
	err := filepath.WalkDir(b.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		input, err := json.Marshal(path)
		task.Items = append(task.Items, pawl.NewItem{Input: input, Key: strconv.Itoa(len(task.Items))})
		return err
	})
	if err == nil && len(task.Items) == 0 {
		err = fmt.Errorf("%s has no files", b.dir)
	}
	if err != nil {
		return pawl.Task{}, err
	}
	return pawl.Create(ctx, eng, task)
}

func (b batch) check(ctx context.Context, path string) (checked, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return checked{Path: path, Gone: true}, nil
	}
	if err != nil {
		return checked{}, err // tried again, three times in all
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return checked{Path: path, Bytes: n, SHA256: fmt.Sprintf("%x", h.Sum(nil))}, err
}

// write replaces the file at once, so that a reader never finds half a report.
func write(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
