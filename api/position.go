package api

import (
	"context"
	"strconv"

	"github.com/pawl-work/pawl"
)

// ParseChunkPosition parses the id of a frame of a message's stream: the number of a chunk, or
// "EPOCH-NUMBER".
func ParseChunkPosition(id string) (epoch, chunk int64, ok bool) {
	p, err := pawl.ParseFeedPosition(id)
	return p.Epoch, p.Position, err == nil && p.Position >= 0
}

// ChunkPosition returns the id of a frame: the number of a chunk, and in a later epoch than 0
// "EPOCH-NUMBER".
func ChunkPosition(epoch, chunk int64) string {
	if epoch == 0 {
		return strconv.FormatInt(chunk, 10)
	}
	return pawl.FeedPosition{Epoch: epoch, Position: chunk}.String()
}

// ItemOf returns the item of an answer. It reads the item if the answer does not have it.
func ItemOf(ctx context.Context, s pawl.ItemReader, m pawl.Moved) (pawl.Item, error) {
	if m.Item != nil {
		return *m.Item, nil
	}
	i, err := s.GetItem(ctx, m.ID)
	i.Repeated = m.Repeated && err == nil
	return i, err
}
