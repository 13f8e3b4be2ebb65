#!/usr/bin/env bash
# Threads and memory under ThreadSanitizer and AddressSanitizer: ci/sanitizers.sh [thread|address]
#
# The sanitizers are of the unstable compiler, which the variable RUSTC_BOOTSTRAP opens in a stable one. A seeded mistake
# shows that each of them works here: the epoch strategy that frees a snapshot at once.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/copy.sh

triple=x86_64-unknown-linux-gnu
export RUSTC_BOOTSTRAP=1
# What is built once and run for seconds need not be linked with care.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16

# What a sanitizer exits with when it has found something.
exit_code=66
export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp exitcode=$exit_code"
export ASAN_OPTIONS="exitcode=$exit_code detect_leaks=1"

# run NAME FLAGS: builds the stress program with the sanitizer and runs it, in a copy of the tree: as it is, and with the
# mistake.
run() {
    local name=$1 flags=$2 folder=${CARGO_TARGET_DIR:-$PWD/target}/sanitize-$1 patch=$PWD/ci/mutants/epoch-freed-at-once.patch
    local stress=$folder/target/$triple/release/examples/stress code=0
    copy_to "$folder"
    # For a target that is named: build scripts run without the sanitizer.
    build() {
        (cd "$folder" && RUSTFLAGS="-Zsanitizer=$name $flags" CARGO_TARGET_DIR=target \
            cargo build --quiet --locked --release -p backends --example stress --target "$triple")
    }
    build
    echo "$name sanitizer, no mistake:"
    "$stress" "${STRESS_VERSIONS:-2000}"
    git -C "$folder" apply "$patch"
    build
    "$stress" 2000 >"$folder/target/mistake.log" 2>&1 || code=$?
    if ((code != exit_code)); then
        echo "the $name sanitizer did not find the freed snapshot (exit code $code), see $folder/target/mistake.log"
        return 1
    fi
    echo "$name sanitizer, snapshot freed at once: found ($(grep -om 1 'SUMMARY.*Sanitizer: [a-z-]*[a-z ]*' "$folder/target/mistake.log"))"
}

case ${1:-all} in
    thread | all) run thread -Cunsafe-allow-abi-mismatch=sanitizer ;;&
    address | all) run address '' ;;
    thread) ;;
    *) echo "usage: ci/sanitizers.sh [thread|address]" >&2; exit 2 ;;
esac
