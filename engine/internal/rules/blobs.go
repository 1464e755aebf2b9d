package rules

import (
	"strings"

	"github.com/pawl-work/pawl"
)

// BlobsIn returns the addresses of the blobs that a value refers to.
func BlobsIn(value []byte) (out [][]byte) {
	for _, address := range pawl.BlobsIn(value) {
		sum, _ := pawl.ParseBlobAddress(address)
		out = append(out, sum)
	}
	return out
}

// BlobsInText is BlobsIn without a copy of a text that refers to none.
func BlobsInText(value string) [][]byte {
	if !strings.Contains(value, pawl.BlobMember) {
		return nil
	}
	return BlobsIn([]byte(value))
}
