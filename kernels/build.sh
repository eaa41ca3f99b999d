#!/usr/bin/env bash
# Builds prebuilt/ from device/, or checks it.
#
#   build.sh            builds, with clang-19 and lld-19; no vendor's toolkit
#   build.sh --check    fails if prebuilt/ was not built from these sources; needs no compiler
#   build.sh --verify   builds elsewhere and fails if one byte differs
set -euo pipefail
shopt -s nullglob
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")"
# shellcheck disable=SC1091
. ./code_objects.sh

flags=(-std=c17 -O2 -ffreestanding -fno-ident -Wall -Wextra -Werror)

# build <folder>
build() {
    # Every GPU since Volta, every driver since 384 (CUDA 9.0, PTX 6.0).
    clang-19 --target=nvptx64-nvidia-cuda -march=sm_70 -Xclang -target-feature -Xclang +ptx60 "${flags[@]}" \
        -S -o "$1/kernels.ptx" device/kernels.c
    code_objects device/kernels.c "$1" "${flags[@]}"
}

sources() { printf '%s\n' build.sh code_objects.sh device/*; }
results() { printf '%s\n' prebuilt/*.ptx prebuilt/*.hsaco; }

check() {
    sha256sum --check --strict --quiet prebuilt/MANIFEST || stale "a file differs from prebuilt/MANIFEST"
    diff <(sed -n 's/^[0-9a-f]\{64\}  //p' prebuilt/MANIFEST) <(sources; results) \
        || stale "prebuilt/MANIFEST does not list the existing files"
    echo "prebuilt/ was built from these sources"
}

stale() {
    echo "kernels/prebuilt is stale: $1; run kernels/build.sh and commit its output" >&2
    exit 1
}

# Fails if a tool is missing.
tools() {
    local tool
    for tool in clang-19 ld.lld-19; do
        command -v "$tool" >/dev/null || {
            echo "$tool is missing; install clang-19 and lld-19" >&2
            exit 1
        }
    done
}

case "${1-}" in
"")
    tools
    built=$(mktemp -d)
    trap 'rm -rf "$built"' EXIT
    build "$built"
    # Replaced after the build, so that a failed build keeps the old files.
    rm -rf prebuilt
    mkdir prebuilt
    cp "$built"/* prebuilt/
    {
        echo "# Written by build.sh: SHA-256 of the sources and of what was built from them, by"
        echo "# $(clang-19 --version | head -n 1)"
        echo "# $(ld.lld-19 --version)"
        # shellcheck disable=SC2046
        sha256sum $(sources; results)
    } >prebuilt/MANIFEST.new
    mv prebuilt/MANIFEST.new prebuilt/MANIFEST
    ;;
--check) check ;;
--verify)
    tools
    check
    built=$(mktemp -d)
    trap 'rm -rf "$built"' EXIT
    build "$built"
    diff -r --exclude MANIFEST prebuilt "$built" || {
        sed -n 's/^# /expected: /p' prebuilt/MANIFEST >&2
        echo "here: $(clang-19 --version | head -n 1)" >&2
        stale "a rebuild yields different files"
    }
    echo "building again gives the same bytes"
    ;;
*)
    sed -n '2,6s/^# \{0,1\}//p' build.sh
    exit 2
    ;;
esac
