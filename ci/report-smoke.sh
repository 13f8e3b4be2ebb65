#!/usr/bin/env bash
# Runs every part of the performance report in its shortest form, without the name servers of others. Fails when a part
# fails; says nothing about speed.
set -euo pipefail
cd "$(dirname "$0")/.."

out=target/report-smoke
rm -rf "$out"
cargo run --release --locked -p benches -- report --quick --no-peers --out "$out"
# Shown again from what was saved.
cargo run --release --locked -p benches -- report --from "$out/results.json" >"$out/report.md"
grep -q 'route queries/s' "$out/report.md"
grep -q '"is_complete": true' "$out/results.json"
ci/report.sh "$out/report.html"
