#!/usr/bin/env bash
# Counts the instructions of hot operations under valgrind and compares them with benches/results/instructions.json: a
# minute after the build. Fails where one takes 5 % more. `--update` writes the file anew, `--only NAME,...` counts a few.
set -euo pipefail
cd "$(dirname "$0")/.."

# Nothing but the release profile: the counts are those of the compiler's default processor.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS
cargo build --release --locked -p benches --bin instructions -p server --bin namesrv
exec "${CARGO_TARGET_DIR:-target}/release/instructions" "$@"
