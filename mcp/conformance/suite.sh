#!/usr/bin/env bash
# Runs the conformance suite, for both revisions, against the test program of
# this folder, and against it with the gate in between; what is known to fail is
# in expected.yaml and expected_gate.yaml.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
PATH=$("$here/../../internal/npm" mcp/foreign):$PATH
export PATH
dir=$(mktemp -d)
server=
trap 'test -z "$server" || kill "$server" 2> /dev/null || true; rm -rf "$dir"' EXIT
(cd "$here" && go build -o "$dir/conformance" .)
for gate in false true; do
	"$dir/conformance" --addr 127.0.0.1:0 --gate=$gate > "$dir/url" &
	server=$!
	n=0
	until url=$(head -n 1 "$dir/url") && test -n "$url"; do
		n=$((n + 1))
		test $n -lt 600 || { echo "the server does not start" >&2; exit 1; }
		sleep 0.1
	done
	expected=expected.yaml
	test $gate = false || expected=expected_gate.yaml
	for revision in 2025-11-25 2026-07-28; do
		(cd "$dir" && conformance server --url "$url" --requirements $revision --expected-failures "$here/$expected" "$@")
	done
	kill "$server"
	wait "$server" || true
	server=
	: > "$dir/url"
done
