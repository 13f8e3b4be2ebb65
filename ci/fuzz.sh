#!/usr/bin/env bash
# ci/fuzz.sh [SECONDS]: runs every fuzz target for so long, 20 seconds by default. Starts from the inputs in fuzz/corpus,
# keeps new ones in fuzz/target/corpus and what fails in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
PATH=$PWD/target/tools/bin:$PATH
seconds=${1:-20}

# Sanitizers are flags of the nightly compiler; the stable one takes them when told so.
export RUSTC_BOOTSTRAP=1

cargo fuzz build
for target in $(cargo fuzz list); do
    found=fuzz/target/corpus/$target
    mkdir -p "$found"
    echo "fuzz $target, $seconds s"
    cargo fuzz run "$target" "$found" "fuzz/corpus/$target" -- -max_total_time="$seconds" -print_final_stats=1 \
        -verbosity=0
done
