package cli

import (
	"context"
	"log/slog"
	"time"

	"github.com/pawl-work/pawl/tracing"
)

// Log returns a logger that writes to stderr, from the configured level on.
func (a *App) Log() *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(a.Config.Log)) // checked by configure
	return a.logger(level)
}

// Notices returns a logger for the lines that are written whatever the level is: a program that
// goes on until it is stopped says that it has started, and that it stops.
func (a *App) Notices() *slog.Logger { return a.logger(slog.LevelInfo) }

// UntilStopped runs what goes on until ctx ends, and says when it stops and when it has stopped.
func (a *App) UntilStopped(ctx context.Context, run func() error) error {
	notices, said := a.Notices(), make(chan struct{})
	unhook := context.AfterFunc(ctx, func() {
		notices.Info("stopping")
		close(said)
	})
	err := run()
	if unhook() {
		return err // it ended by itself, and the command says why
	}
	<-said
	if err != nil {
		notices.Error("stopped", "error", err)
	} else {
		notices.Info("stopped")
	}
	return err
}

func (a *App) logger(level slog.Level) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if a.Config.LogFormat != "json" {
		return slog.New(tracing.LogHandler{Handler: slog.NewTextHandler(a.Stderr, o)})
	}
	o.ReplaceAttr = func(_ []string, attr slog.Attr) slog.Attr {
		if attr.Value.Kind() == slog.KindDuration {
			attr.Value = slog.Float64Value(time.Duration.Seconds(attr.Value.Duration()))
		}
		return attr
	}
	return slog.New(tracing.LogHandler{Handler: slog.NewJSONHandler(a.Stderr, o)})
}
