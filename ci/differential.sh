#!/usr/bin/env bash
# ci/differential.sh [STEPS] [SEED]: random sequences of requests to the official name server and to ours; STEPS for each
# configuration, 2,000 by default. The seed is printed, so that a run can be repeated. Needs a JDK and Maven.
set -euo pipefail
cd "$(dirname "$0")/.."

export REQUIRE_PEERS=1
export DIFFERENTIAL_STEPS=${1:-2000}
if (($# > 1)); then
    export DIFFERENTIAL_SEED=$2
fi
cargo test -p server --test differential
