#!/usr/bin/env bash
# Every way to select a backend: the ones that work, on the recorded answers of the original; the ones that do not, for
# an error that helps.
set -euo pipefail
cd "$(dirname "$0")/.."

server=(-p server --no-default-features)

# says FEATURES NAMES: the program names its backends.
says() {
    local version
    version=$(cargo run --quiet "${server[@]}" --features "$1" --bin namesrv -- --version)
    echo "features $1: $version"
    [[ $version == *"(backend $2)"* ]] || { echo "expected: backend $2"; return 1; }
}

# refused FEATURES TEXT: the selection does not compile, and the error says why.
refused() {
    local output
    if output=$(cargo check --quiet "${server[@]}" --lib --features "$1" 2>&1); then
        echo "features '$1' compile, and should not"
        return 1
    fi
    echo "features '$1': $(grep -m1 "$2" <<<"$output" || { echo "$output"; echo "expected: $2"; return 1; })"
}

refused '' 'no backend is selected: add one of the features'
refused backend-rwlock,backend-cached 'two backends are selected: keep one of the features'

says default-backend rwlock
says all-backends 'rwlock, dashmap, left-right, epoch, cached'
# The default has the lowest priority.
says default-backend,backend-epoch epoch

for backend in rwlock dashmap left-right epoch cached; do
    says "backend-$backend" "$backend"
    cargo test --quiet "${server[@]}" --features "backend-$backend" --test replay
done
