#!/usr/bin/env bash
# Random sequences of commands on each backend, against the tables and the naive model: ci/sequences.sh [SEQUENCES]
set -euo pipefail
cd "$(dirname "$0")/.."

export PROPTEST_CASES=${1:-10000}
exec cargo test --locked --release -p backends --test machine -- --nocapture
