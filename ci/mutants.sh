#!/usr/bin/env bash
# Seeded mistakes: makes each of ci/mutants/*.patch in a copy of the tree, and fails when it is not found as it claims.
#
# ci/mutants.sh [--quick] [WORD]: only patches whose names have the word; --quick, as in CI, every sixth, none for loom.
# ci/mutants.sh --refresh: makes the patches anew whose surroundings have changed, where they still fit.
#
# A patch has lines above its diff: "Breaks: ..." says what goes wrong, "Level N: PACKAGE TEST FILTER..." what finds it;
# TEST is a test target, or lib. Of several, the first ends the search that finds it; one before it is a false claim.
set -euo pipefail
cd "$(dirname "$0")/.."
. ci/copy.sh

# A copy of the tree for each processor.
copies=$(nproc)
work=$(realpath -m "${CARGO_TARGET_DIR:-target}")/mutants
export work
unset CARGO_TARGET_DIR
mkdir -p "$work"
: >"$work/problems"
# Chance decides what threads meet, so they are let loose several times.
export tries=8
# A test that lasts so long, in seconds, is given up and counts as no finding.
export limit=240
# What is built for one mistake runs for seconds.
export CARGO_INCREMENTAL=1 CARGO_PROFILE_DEV_DEBUG=0 CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_TERM_COLOR=never
# A few random runs are enough for what they have to find, each time the same; what they find is not made smaller.
export LOOM_SCENARIOS=10 PROPTEST_CASES=96 PROPTEST_RNG_SEED=1 PROPTEST_MAX_SHRINK_ITERS=0

# build PACKAGE TEST, run PACKAGE TEST FILTER...: in this folder.
build() {
    if [[ $2 == loom ]]; then
        ci/loom.sh 2 no_test_has_this_name
    else
        cargo test --locked -p "$1" "$(target "$2")" --no-run
    fi
}
run() {
    if [[ $2 == loom ]]; then
        timeout "$limit" ci/loom.sh 2 "${@:3}"
    else
        timeout "$limit" cargo test --quiet --locked -p "$1" "$(target "$2")" -- "${@:3}"
    fi
}
target() { if [[ $1 == lib ]]; then echo --lib; else echo "--test=$1"; fi; }

# finds PACKAGE TEST FILTER...: says whether a test fails, by itself and not by our patience.
finds() {
    local turns=1 code
    [[ $2 != threads && $2 != histories ]] || turns=$tries
    while ((turns-- > 0)); do
        code=0
        run "$@" || code=$?
        ((code == 0 || code == 124)) || return 0
    done
    return 1
}

# problem WHAT...: is told at the end, and fails the whole.
problem() { echo "$*" >>"$work/problems"; }

# without_mistake PACKAGE TEST FILTER...: has to pass, and gets the time for it: all filters together are long.
without_mistake() {
    local log=$work/$1-$2.log limit=720
    cd "$work/$slot"
    if ! { build "$@" && run "$@"; } >"$log" 2>&1 </dev/null; then
        problem "$1 $2 fails without a mistake, see $log"
    fi
}

# with_mistake PATCH: makes the mistake and looks for it.
with_mistake() {
    local patch=$1 name log level tests found='' began=$SECONDS
    name=$(basename "$patch" .patch)
    log=$work/$name.log
    cd "$work/$slot"
    git reset -q --hard
    git clean -fdq
    if git apply "$patch" >"$log" 2>&1; then
        while read -r level tests; do
            read -ra tests <<<"$tests"
            build "${tests[@]}" >"$log" 2>&1 </dev/null || { found='DOES NOT COMPILE'; break; }
            if finds "${tests[@]}" >"$log" 2>&1 </dev/null; then
                found="$level ${tests[*]}"
                break
            fi
            problem "$name: a false claim, ${tests[*]} does not find it"
        done < <(sed -n 's/^Level \([0-9]\): /\1 /p' "$patch")
    else
        found='DOES NOT APPLY'
    fi
    [[ $found == [0-9]* ]] || problem "$name: ${found:=NOBODY}, see $log"
    printf '%-44s| %-74s| %d\n' "$name" "$found" "$((SECONDS - began))"
}

with_mistakes() {
    local patch
    for patch; do with_mistake "$patch"; done
}

# in_copies FUNCTION: calls it with the words of each line of the input, side by side, each in a copy of its own.
in_copies() {
    # shellcheck disable=SC2016 # Not this shell's.
    xargs -d '\n' -n 1 -P "$copies" --process-slot-var=slot \
        bash -euo pipefail -c 'read -ra words <<<"$1"; "$0" "${words[@]}"' "$1"
}
export -f build run target finds problem without_mistake with_mistake with_mistakes

refresh() {
    local patch
    for patch in ci/mutants/*.patch; do
        git -C "$work/0" reset -q --hard
        if git -C "$work/0" apply "$PWD/$patch" 2>/dev/null; then
            continue
        elif patch -d "$work/0" -p1 -s -F 3 --no-backup-if-mismatch <"$patch" >"$work/refresh.log"; then
            { sed '/^--- /,$d' "$patch"; git -C "$work/0" diff -U2 | grep -vE '^(diff|index) '; } >"$work/new.patch"
            mv "$work/new.patch" "$patch"
            echo "$patch is refreshed"
        else
            problem "$patch does not fit any more"
        fi
    done
    cat "$work/problems"
    [[ ! -s $work/problems ]]
}

for ((slot = 0; slot < copies; slot++)); do copy_to "$work/$slot"; done
quick=''
case ${1:-} in
    --refresh) refresh; exit ;;
    --quick) quick=yes; shift ;;
esac
# By package and test, so that little is built again from one to the next.
mapfile -t patches < <(grep -m 1 -H '^Level' /dev/null "$PWD"/ci/mutants/*"${1:-}"*.patch |
    sort -t : -k 3,3 -k 1,1 | cut -d : -f 1)
explored=()
for at in "${!patches[@]}"; do
    if grep -q '^Level 2' "${patches[at]}"; then
        explored+=("${patches[at]}")
        unset "patches[at]"
    fi
done
patches=("${patches[@]}")
((${#patches[@]} + ${#explored[@]})) || { echo "no mistake is named so"; exit 1; }
if [[ -n $quick ]]; then
    explored=()
    for at in "${!patches[@]}"; do ((at % 6 == 0)) || unset "patches[at]"; done
fi

echo 'Without a mistake:'
# All filters of a test together; that of loom first, so that it is built in the same copy as below.
sed -n 's/^Level [0-9]: //p' "${patches[@]}" "${explored[@]}" | awk '
    { for (i = 3; i <= NF; i++) if (!seen[$1, $2, $i]++) filters[$1 " " $2] = filters[$1 " " $2] " " $i }
    END { for (test in filters) print (test ~ / loom$/ ? 0 : 1), test filters[test] }' | sort | cut -d ' ' -f 2- |
    in_copies without_mistake
[[ ! -s $work/problems ]] || { cat "$work/problems"; exit 1; }

printf '%-44s| %-74s| %s\n' mistake 'found by' seconds
# Loom is built in the first copy alone.
{ echo "${explored[@]}"; printf '%s\n' "${patches[@]}"; } |
    in_copies with_mistakes

echo
[[ ! -s $work/problems ]] || { sort "$work/problems"; exit 1; }
echo "all $((${#patches[@]} + ${#explored[@]})) mistakes were found"
