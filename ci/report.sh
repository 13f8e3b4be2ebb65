#!/usr/bin/env bash
# Opens a page of the report in headless Chromium and checks what is seen of it: ci/report.sh [PAGE.html]
# Without an argument it is a page of invented numbers that has every chart; then pages that are broken on purpose must
# fail the same check. PICTURES=FOLDER keeps screenshots for a look with one's own eyes.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v "${CHROMIUM:-chromium}" >/dev/null || {
    echo "chromium is missing; ci/tools.sh installs it"
    exit 1
}
pictures=()
if [[ -n ${PICTURES:-} ]]; then
    mkdir -p "$PICTURES"
    pictures=("$PICTURES")
fi

if (($#)); then
    exec python3 ci/report/check.py "$1" "${pictures[@]}"
fi

page=target/report-check.html
cargo run --quiet --locked -p benches --example page -- "$page" >/dev/null
python3 ci/report/check.py "$page" "${pictures[@]}"
python3 ci/report/self_test.py "$page"
