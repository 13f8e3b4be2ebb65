#!/usr/bin/env bash
# What the server withstands among strangers: ci/strangers.sh [--quick] [WORD]...
#
# Builds the program and its test once, runs every test on the default backend and those where the backend matters on
# all, one after the other, and prints what each row measured beside its limit. --quick leaves out what takes long, and
# the other backends but for the shortest of these tests. WORDs: only tests whose names have one of them.
set -euo pipefail
cd "$(dirname "$0")/.."

# What each backend has to show for itself: modules of the test.
everywhere=(lists:: registrations:: tables:: a_million_topics)
ignored=(--include-ignored)
if [[ ${1:-} == --quick ]]; then
    shift
    ignored=()
    everywhere=(lists::a_list tables::)
fi

# Times are measured, so it is optimised; what is built once and run for minutes need not be linked with care.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_DEBUG=false
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/strangers
build=(cargo test --quiet --locked --release -p server --features all-backends --test strangers)
"${build[@]}" --no-run

out=$CARGO_TARGET_DIR/measured
mkdir -p "$out"
rm -f "$out"/*.log

status=0
# run BACKEND [WORD]...: the tests on a backend, one at a time.
run() {
    local backend=$1 began=$SECONDS
    shift
    echo "strangers: $backend"
    STRANGERS_BACKEND=$backend "${build[@]}" -- --test-threads=1 --nocapture "${ignored[@]}" "$@" 2>&1 |
        cut -c 1-2000 | tee "$out/$backend.log" | sed -n '/STRANGERS|/!p' || status=1
    echo "strangers: $backend: $((SECONDS - began)) s"
}

run rwlock "$@"
if ((!$#)); then
    for backend in dashmap left-right epoch cached; do
        run "$backend" "${everywhere[@]}"
    done
fi

# Lines STRANGERS|row|what|measured|limit, from wherever the runner has begun a line. Of a row that measures something
# more than once, the largest counts.
table() {
    local backend
    for backend in rwlock dashmap left-right epoch cached; do
        [[ ! -e $out/$backend.log ]] || sed -n "s/.*STRANGERS|/$backend|/p" "$out/$backend.log"
    done | awk -F'|' '
        {
            key = $2 "|" $3
            if (!(key in limit)) { order[++rows] = key; limit[key] = $5 }
            if (!($1 in seen)) { seen[$1]; backends[++columns] = $1 }
            cell = $1 SUBSEP key
            if (!(cell in value) || $4 + 0 > value[cell] + 0 || $4 == "false") value[cell] = $4
        }
        END {
            printf "row|what|limit"
            for (c = 1; c <= columns; c++) printf "|%s", backends[c]
            print ""
            for (r = 1; r <= rows; r++) {
                printf "%s|%s", order[r], limit[order[r]]
                for (c = 1; c <= columns; c++) {
                    cell = backends[c] SUBSEP order[r]
                    printf "|%s", cell in value ? value[cell] : "-"
                }
                print ""
            }
        }'
}

# Columns of equal width.
align() {
    awk -F'|' '
        { for (i = 1; i <= NF; i++) { if (length($i) > width[i]) width[i] = length($i) } line[NR] = $0 }
        END {
            for (l = 1; l <= NR; l++) {
                cells = split(line[l], cell, "|")
                for (i = 1; i <= cells; i++) printf "%-*s%s", width[i], cell[i], i < cells ? " | " : "\n"
            }
        }'
}

echo
table | { read -r head; echo "$head"; sort -t '|' -s -k 1,1V; } | align

# The summaries of the runs together.
total() { cat "$out"/*.log | sed -n "s/^test result: .* \([0-9]*\) $1.*/\1/p" | awk '{ n += $1 } END { print n + 0 }'; }
sed -n 's/^    \([a-z0-9_]*::[a-z0-9_:]*\)$/failed: \1/p' "$out"/*.log
echo "$(total passed) passed, $(total failed) failed"
exit "$status"
