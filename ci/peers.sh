#!/usr/bin/env bash
# Real brokers, tools and clients against our name server; about five minutes on two cores.
# PEERS_TARGET=official runs the same tests against the official name server, which shows that they are right.
set -euo pipefail
cd "$(dirname "$0")/.."

# The peers are Java, Go, Python and Node programs; what is there already is left alone.
missing=()
command -v javac >/dev/null || missing+=(default-jdk-headless)
command -v mvn >/dev/null || missing+=(maven)
command -v go >/dev/null || missing+=(golang-go)
command -v node >/dev/null || missing+=(nodejs)
command -v npm >/dev/null || missing+=(npm)
python3 -m pip --version >/dev/null 2>&1 || missing+=(python3 python3-pip)
if ((${#missing[@]})); then
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}"
fi

# A job of its own is a process group of its own: whatever a run that was cut short leaves behind ends with it.
set -m
run=
trap '[[ -z $run ]] || kill -KILL -- "-$run" 2>/dev/null || true' EXIT
trap 'exit 130' INT TERM

peers() {
    REQUIRE_PEERS=1 cargo test -p server --test real_peers -- --ignored --nocapture --test-threads=2 &
    run=$!
    wait "$run"
}

# Ten JVMs on two cores run into time-outs of their own now and then. What fails twice is a failure.
peers || {
    echo "==> peers: failed; once more"
    peers
}
