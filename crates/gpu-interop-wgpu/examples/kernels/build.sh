#!/usr/bin/env bash
# Builds the PTX of the examples' kernels with clang-19; no vendor's toolkit.
#
#   build.sh            builds
#   build.sh --check    fails if the PTX was not built from these sources; needs no compiler
#   build.sh --verify   builds elsewhere and fails if one byte differs
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

headers=../../../../kernels/device
# As kernels/build.sh: every GPU since Volta, every driver since 384. Without contraction, for the results of the CPU.
flags=(--target=nvptx64-nvidia-cuda -march=sm_70 -Xclang -target-feature -Xclang +ptx60 -std=c17 -O2 -ffreestanding
    -fno-math-errno -ffp-contract=off -fno-ident -Wall -Wextra -Werror -I "$headers")

# build <folder>
build() {
    local kernel
    for kernel in edges particles; do
        clang-19 "${flags[@]}" -S -o "$1/$kernel.ptx" "$kernel.c"
    done
}

stale() {
    echo "the examples' PTX is stale: $1; run crates/gpu-interop-wgpu/examples/kernels/build.sh and commit its output" >&2
    exit 1
}

case "${1-}" in
"")
    build .
    sha256sum build.sh ./*.c "$headers/vendor.h" ./*.ptx >MANIFEST
    ;;
--check) sha256sum --check --strict --quiet MANIFEST || stale "a file differs from MANIFEST" ;;
--verify)
    built=$(mktemp -d)
    trap 'rm -rf "$built"' EXIT
    build "$built"
    for ptx in "$built"/*.ptx; do
        cmp "$ptx" "$(basename "$ptx")" || stale "a rebuild yields different files"
    done
    ;;
*)
    sed -n '2,6s/^# \{0,1\}//p' "$(basename "$0")"
    exit 2
    ;;
esac
