#!/bin/sh
# Explores the interleavings of the strategies with loom. Other flags make other artefacts, so they have their own folder.
set -eu
cd "$(dirname "$0")/.."
export RUSTFLAGS="--cfg loom ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target/loom}"
exec timeout "${LOOM_TIMEOUT_S:-600}" cargo test -p backends --release --test loom -- "$@"
