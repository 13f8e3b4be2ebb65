#!/bin/sh
# Checks recorded histories of real threads against the sequential specification: ci/histories.sh [HISTORIES]
set -eu
cd "$(dirname "$0")/.."
export HISTORIES="${1:-2000}"
exec cargo test -p backends --release --test histories -- --nocapture
