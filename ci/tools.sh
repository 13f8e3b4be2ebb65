#!/usr/bin/env bash
# Installs what the other scripts need and is missing: a C++ compiler and cargo-fuzz for ci/fuzz.sh; a JDK, Maven, Go,
# Node, npm and pip for the real peers; faketime for tests that turn the clock; Chromium for ci/report.sh; valgrind for
# ci/instructions.sh. What is there is left alone.
set -euo pipefail
cd "$(dirname "$0")/.."

CARGO_FUZZ_VERSION=0.13.2

missing=()
# need PROGRAM PACKAGE
need() { command -v "$1" >/dev/null || missing+=("$2"); }
need c++ g++
need chromium chromium
need faketime faketime
need javac default-jdk-headless
need mvn maven
need go golang-go
need node nodejs
need npm npm
need valgrind valgrind
need python3 python3
python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)

if ((${#missing[@]})); then
    echo "installing ${missing[*]}"
    as_root=()
    ((EUID == 0)) || as_root=(sudo)
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if ! command -v cargo-fuzz >/dev/null && ! [[ -x target/tools/bin/cargo-fuzz ]]; then
    cargo install --quiet --locked --root target/tools --version "$CARGO_FUZZ_VERSION" cargo-fuzz
fi
