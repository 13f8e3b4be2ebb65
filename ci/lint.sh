#!/usr/bin/env bash
# Format, lints, documentation, and the words that do not belong into the tree.
set -euo pipefail
cd "$(dirname "$0")/.."

# Recorded data, lock files and this script itself may say what they like.
exempt=(':!server/tests/vectors' ':!fuzz/corpus' ':!*.lock' ':!*-lock.json' ':!*/go.sum' ':!LICENSE' ':!ci/lint.sh')

# absent WHAT PATTERN: fails, and shows where, when a tracked file has a line that matches the extended expression.
absent() {
    local found
    if found=$(git grep -nIiE -e "$2" -- "${exempt[@]}"); then
        printf '%s in the tree:\n%s\n' "$1" "$found"
        return 1
    fi
}

# A test may say /tmp/x, where no file is meant.
absent 'folders of one machine' '(^|[^[:alnum:]_.$}*-])/((work|root|Users)/|tmp/[^x])'
absent 'host names of package registries' 'crates\.io|npmjs\.|pypi\.org|pythonhosted|maven\.org|proxy\.golang'
absent 'notes on authorship' '(generated|authored|created)[- ]by'

cargo fmt --check
cargo fmt --check --manifest-path fuzz/Cargo.toml
cargo clippy --locked --workspace --all-targets --all-features -- -D warnings
# Not among all targets, as it does not run with the other tests.
cargo clippy --locked -p server --test strangers --all-features -- -D warnings
RUSTDOCFLAGS="-D warnings" cargo doc --locked --workspace --no-deps --all-features
