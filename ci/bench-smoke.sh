#!/usr/bin/env bash
# Runs the body of every benchmark once: they work. Says nothing about their speed.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo bench -p benches -- --test
