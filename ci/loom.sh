#!/bin/sh
# Explores the interleavings of the strategies with loom: ci/loom.sh [PREEMPTIONS] [TEST-NAME...]
#
# Other flags make other artefacts, so they have a folder of their own, and a patched dependency another lock file, so the
# workspace is seen through a folder of links. The patch: under loom, left-right replaces its sequentially consistent
# fences by weaker ones, which loom did not have when that was written; with loom's own there are no false alarms. As in
# backends/src/sync.rs, loom stops threads before each.
set -eu
cd "$(dirname "$0")/.."
root=$PWD
export LOOM_MAX_PREEMPTIONS="${1:-2}"
[ $# -eq 0 ] || shift
target="${CARGO_TARGET_DIR:-$root/target/loom}"
mkdir -p "$target"

patched=$target/left-right-patched
manifest=$(cargo metadata --format-version 1 --locked |
    tr ',' '\n' | sed -n 's/.*"manifest_path":"\([^"]*\/left-right-[0-9][^"]*Cargo.toml\)".*/\1/p' | head -n 1)
[ -n "$manifest" ] || { echo "left-right is not among the dependencies" >&2; exit 1; }
rm -rf "$patched"
cp -r "${manifest%/Cargo.toml}" "$patched"
# Replaces the function.
awk '/^pub\(crate\) fn fence/ {
        print "pub(crate) fn fence(order: Ordering) {"
        print "    loom::lazy_static! { static ref FENCES: AtomicUsize = AtomicUsize::new(0); }"
        print "    FENCES.fetch_add(0, Ordering::Relaxed);"
        print "    loom::sync::atomic::fence(order);"
        print "}"
        skip = 1
    }
    !skip { print }
    skip && /^}/ { skip = 0 }' "$patched/src/sync.rs" > "$patched/src/sync.rs.new"
mv "$patched/src/sync.rs.new" "$patched/src/sync.rs"
grep -q 'loom::sync::atomic::fence(order);' "$patched/src/sync.rs" || { echo "the patch does not fit" >&2; exit 1; }

view=$target/workspace
mkdir -p "$view"
for entry in registry-core backends server benches; do
    [ -e "$view/$entry" ] || ln -s "$root/$entry" "$view/$entry"
done
cp Cargo.toml Cargo.lock "$view/"

cd "$view"
export RUSTFLAGS="--cfg loom --cfg crossbeam_loom --cfg crossbeam_sanitize ${RUSTFLAGS:-}"
export CARGO_TARGET_DIR="$target"
# What is built once and run for minutes need not be linked with care.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=false
export RUST_MIN_STACK="${RUST_MIN_STACK:-8388608}"
set -- --config "patch.crates-io.left-right.path='$patched'" -- "$@"
cargo test -p backends --release --test loom --no-run "$1" "$2"
exec timeout "${LOOM_TIMEOUT_S:-720}" cargo test -p backends --release --test loom "$@" --nocapture
