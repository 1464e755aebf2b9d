//go:build !unix

package sqlite

import (
	"context"
	"log/slog"
)

// restrict does nothing: there are no such permissions here.
func restrict(context.Context, string, *slog.Logger) {}
