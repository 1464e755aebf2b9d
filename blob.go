package pawl

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"regexp"
	"strings"
)

// Blob describes stored bytes.
type Blob struct {
	// Address is "sha256:" and the digest of the bytes in lower-case hex.
	Address string `json:"address" doc:"sha256: and the digest of the bytes in hex."`
	Size    int64  `json:"size" doc:"How many bytes it has."`
	// Existed is set if the namespace had the bytes already.
	Existed bool `json:"existed,omitempty" doc:"The namespace had these bytes already."`
}

// BlobUpload is content that is to be stored.
type BlobUpload struct {
	Content io.Reader
	Address string // that the content must have; "" = any
	Size    int64  // that the content must have; 0 = any
}

// blobScheme begins the address of a blob.
const blobScheme = "sha256:"

// BlobAddress returns the address of a digest.
func BlobAddress(sum []byte) string { return blobScheme + hex.EncodeToString(sum) }

// ParseBlobAddress returns the digest that an address names. Upper-case digits are refused:
// a blob has one address.
func ParseBlobAddress(address string) (sum []byte, ok bool) {
	digits, ok := strings.CutPrefix(address, blobScheme)
	if !ok || len(digits) != 2*sha256.Size || strings.ToLower(digits) != digits {
		return nil, false
	}
	sum, err := hex.DecodeString(digits)
	return sum, err == nil
}

// blobReference is a reference to a blob: see BlobMember. A quote inside a string is escaped,
// so a text about references is none.
var blobReference = regexp.MustCompile(`(?:^|[^\\])"\` + BlobMember + `"\s*:\s*"(sha256:[0-9a-f]{64})"`)

// BlobsIn returns the addresses of the blobs that values refer to, each once, in the order of
// the first references to them.
func BlobsIn(values ...json.RawMessage) (addresses []string) {
	var seen map[string]bool // made for the first value with references: most have none
	for _, value := range values {
		if !bytes.Contains(value, []byte(BlobMember)) {
			continue
		}
		if seen == nil {
			seen = map[string]bool{}
		}
		for _, m := range blobReference.FindAllSubmatch(value, -1) {
			if address := string(m[1]); !seen[address] {
				seen[address] = true
				addresses = append(addresses, address)
			}
		}
	}
	return addresses
}
