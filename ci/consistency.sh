#!/usr/bin/env bash
# Checked reads over TCP while brokers register, on each backend: ci/consistency.sh [READS] [RECONNECTS]
set -euo pipefail
cd "$(dirname "$0")/.."

reads=${1:-1000000}
reconnects=${2:-10000}
target=${CARGO_TARGET_DIR:-target}
cargo build --quiet --locked --release -p server --features all-backends --bin namesrv
cargo build --quiet --locked --release -p benches --bin consistency

home=$(mktemp -d)
server=
trap '[[ -z $server ]] || kill "$server" 2>/dev/null || true; rm -rf "$home"' EXIT
printf 'listenPort=0\nbindAddress=127.0.0.1\nkvConfigPath=%s/kv.json\n' "$home" >"$home/namesrv.properties"

for backend in rwlock dashmap left-right epoch cached; do
    # Before the server starts: what the last one has printed must not be taken for its words.
    : >"$home/out"
    RUST_LOG=warn "$target/release/namesrv" -c "$home/namesrv.properties" --backend "$backend" >"$home/out" &
    server=$!
    until grep -q 'boot success' "$home/out"; do
        kill -0 "$server"
        sleep 0.05
    done
    port=$(sed -n 's/.*address .*:\([0-9]*\)$/\1/p' "$home/out")
    echo -n "$backend: "
    "$target/release/consistency" --addr "127.0.0.1:$port" --reads "$reads" --reconnects "$reconnects"
    kill "$server"
    wait "$server" || true
    server=
done
