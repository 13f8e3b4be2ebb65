#!/usr/bin/env bash
# Seeded mistakes: builds once with all of them, makes one at a time, and fails when the tests do not find it.
#
# ci/mutants.sh [WORD]: only mistakes whose line below has the word.
set -euo pipefail
cd "$(dirname "$0")/.."

# mistake | strategy it is made in | tests that look for it, the cheapest first. One of them has to fail.
mutants() {
    cat <<'END'
rwlock.root_first                   rwlock      threads
rwlock.lock_for_each_topic          rwlock      threads
rwlock.removals_lost                rwlock      conformance
rwlock.replacements_lost            rwlock      conformance
rwlock.roots_alone_are_no_change    rwlock      conformance
dashmap.root_first                  dashmap     threads
dashmap.always_newest               dashmap     threads
dashmap.no_former                   dashmap     threads
dashmap.no_check                    dashmap     threads loom
dashmap.beginning_not_told          dashmap     threads loom
dashmap.twice_in_one_change         dashmap     threads loom
dashmap.tombstones_not_looked_at    dashmap     conformance machine
latest.never_refreshed              dashmap     conformance
latest.number_not_raised            dashmap     conformance
latest.never_dropped                dashmap     misbehaviour
latest.no_fence                     dashmap     loom
left_right.answers_first            left_right  conformance
left_right.roots_alone_wait         left_right  conformance
left_right.removed_from_one_copy    left_right  conformance machine
left_right.second_half_lost         left_right  conformance machine
left_right.root_first               left_right  threads
left_right.half_dropped             left_right  misbehaviour
epoch.stale_base                    epoch       conformance
epoch.root_first                    epoch       threads
epoch.freed_at_once                 epoch       misbehaviour threads
epoch.never_dropped                 epoch       misbehaviour
snapshot.removals_lost              epoch       conformance
snapshot.replacements_lost          epoch       conformance
cached.stale_base                   cached      conformance
cached.root_first                   cached      threads
snapshot.removals_lost              cached      conformance
latest.never_refreshed              cached      conformance
latest.number_not_raised            cached      conformance
latest.never_dropped                cached      misbehaviour
latest.number_first                 cached      loom
latest.number_beside_the_lock       cached      loom
latest.no_fence                     cached      loom
writer.answers_first                rwlock      conformance
expiry.without_claim                rwlock      unit heartbeats
pulse.late_is_beaten                rwlock      unit heartbeats
unregister.not_fenced               rwlock      conformance
disconnect.not_fenced               rwlock      conformance
delete.leaves_unchanged_untouched   rwlock      conformance
sweep.index_used_again_at_once      rwlock      conformance machine
route_cache.never_renewed            rwlock      machine
route.mappings_of_the_dead          rwlock      conformance machine
lists.topics_of_the_dead            rwlock      conformance
list_cache.never_renewed            rwlock      machine
image.topic_lists_not_told          rwlock      machine
END
}

# Chance decides what threads meet, so they are let loose several times.
tries=8
# A run that lasts so long, in seconds, is given up and counts as no finding.
limit=120
# A few random runs are enough for what they have to find; what they find is not made smaller, and not kept.
export LOOM_MAX_PREEMPTIONS=2 LOOM_SCENARIOS=${LOOM_SCENARIOS:-10}
export PROPTEST_CASES=${PROPTEST_CASES:-48} PROPTEST_MAX_SHRINK_ITERS=0

target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
# Elsewhere than beside the sources, where random tests would keep what failed.
run_folder=$target/mutants/run
mkdir -p "$run_folder"

# build COMMAND ARGS..: builds tests and prints a line "name path" for each that cargo names.
build() {
    RUSTFLAGS='--cfg mutants' "$@" 2>&1 | sed -nE -e 's#^ *(Executable|Running) tests/([a-z]+)\.rs \((.*)\)#\2 \3#p' \
        -e 's#^ *Executable unittests src/lib\.rs \((.*registry_core-.*)\)#unit \1#p'
}
declare -A binary
# Both packages have a test named machine; that of backends comes first.
while read -r name path; do : "${binary[$name]:=$(realpath "$path")}"; done < <(
    CARGO_TARGET_DIR=$target/mutants build cargo test --locked -p backends -p registry-core --no-run --lib \
        --test conformance --test machine --test misbehaviour --test threads
    # Of no test, so that it only builds.
    CARGO_TARGET_DIR=$target/mutants-loom build ci/loom.sh 2 no_test_has_this_name
)
for name in unit conformance machine misbehaviour threads loom; do
    [[ -n ${binary[$name]:-} ]] || { echo "no build of $name"; exit 1; }
done

# check TEST STRATEGY: runs the part of a test that concerns the strategy.
check() {
    local name=$1 filter=$2::
    case $1 in
        # Not about strategies.
        unit) filter=liveness:: ;;
        machine) filter=$2 ;;
        threads) filter=$2::readers_see_one_state ;;
        heartbeats) name=threads filter=$2::an_answered_heartbeat_saves ;;
    esac
    (cd "$run_folder" && timeout "$limit" "${binary[$name]}" "$filter" </dev/null >last.log 2>&1)
}

# finds TEST STRATEGY: says whether the test fails, by itself and not by our patience.
finds() {
    local turns=1 code
    case $1 in threads | heartbeats) turns=$tries ;; esac
    while ((turns-- > 0)); do
        code=0
        check "$1" "$2" || code=$?
        if ((code != 0 && code != 124)); then
            return 0
        fi
    done
    return 1
}

level() {
    case $1 in
        unit | conformance | machine | misbehaviour) echo "1 $1" ;;
        loom) echo "2 $1" ;;
        threads | heartbeats) echo "3 $1" ;;
    esac
}

survivors=0
echo 'Without a mistake:'
for test in unit conformance machine misbehaviour threads heartbeats; do
    for strategy in rwlock dashmap left_right epoch cached; do
        check "$test" "$strategy" || { echo "$test fails on $strategy, see $run_folder/last.log"; exit 1; }
    done
    echo "  $test passes"
done
(cd "$run_folder" && timeout "$limit" "${binary[threads]}" broken:: >last.log 2>&1) ||
    { echo "the strategies that are broken on purpose were not all found out"; exit 1; }
echo '  threads find out the concurrent maps without a protocol, and the others that are broken on purpose'

printf '\n%-35s| %-11s| %-15s| %s\n' mistake strategy 'found by' seconds
while read -r mutant strategy tests; do
    export MUTANT=$mutant
    began=$(date +%s%N) found=''
    for test in $tests; do
        if finds "$test" "$strategy"; then
            found=$(level "$test")
            break
        fi
    done
    [[ -n $found ]] || { found='NOBODY'; survivors=$((survivors + 1)); }
    printf '%-35s| %-11s| %-15s| %.1f\n' "$mutant" "$strategy" "$found" "$((($(date +%s%N) - began) / 100000000))e-1"
done < <(mutants | grep -e "${1:-.}")

echo
((survivors == 0)) || { echo "$survivors mistakes were not found"; exit 1; }
echo 'every mistake was found'
