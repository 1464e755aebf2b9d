//go:build !unix

package sqlite

import (
	"context"
	"log/slog"
)

// restrict does nothing, because this system has no such permissions.
func restrict(context.Context, string, *slog.Logger) {}
