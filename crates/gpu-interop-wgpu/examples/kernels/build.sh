#!/usr/bin/env bash
# Builds the examples' kernels with clang-19 and lld-19: PTX, and code objects in KERNEL/TARGET.hsaco. No vendor's toolkit.
#
#   build.sh                    builds
#   build.sh --check            fails if the files were not built from these sources; needs no compiler
#   build.sh --verify           builds elsewhere and fails if one byte differs
#   build.sh --simulated FILE   builds a library of the kernels for the simulators, GPU_INTEROP_SIM_KERNELS
set -euo pipefail
export LC_ALL=C
cd "$(dirname "${BASH_SOURCE[0]}")"

prebuilt=../../../../kernels
# shellcheck disable=SC1091
. "$prebuilt/code_objects.sh"
kernels=(edges particles)
# Without contraction, for the results of the CPU.
flags=(-std=c17 -O2 -ffreestanding -fno-math-errno -ffp-contract=off -fno-ident -Wall -Wextra -Werror
    -I "$prebuilt/device")

# build <folder>
build() {
    local kernel
    for kernel in "${kernels[@]}"; do
        # As kernels/build.sh: every GPU since Volta, every driver since 384.
        clang-19 --target=nvptx64-nvidia-cuda -march=sm_70 -Xclang -target-feature -Xclang +ptx60 "${flags[@]}" \
            -S -o "$1/$kernel.ptx" "$kernel.c"
        mkdir -p "$1/$kernel"
        code_objects "$kernel.c" "$1/$kernel" "${flags[@]}"
    done
}

sources() { printf '%s\n' build.sh ./*.c "$prebuilt/code_objects.sh" "$prebuilt/device/vendor.h"; }
# results <folder>
results() { (cd "$1" && printf '%s\n' ./*.ptx ./*/*.hsaco); }

stale() {
    echo "the examples' kernels are stale: $1; run crates/gpu-interop-wgpu/examples/kernels/build.sh and commit its" \
        "output" >&2
    exit 1
}

case "${1-}" in
"")
    rm -rf "${kernels[@]}"
    build .
    # shellcheck disable=SC2046
    sha256sum $(sources; results .) >MANIFEST
    ;;
--check)
    sha256sum --check --strict --quiet MANIFEST || stale "a file differs from MANIFEST"
    diff <(sed 's/^[0-9a-f]\{64\}  //' MANIFEST) <(sources; results .) || stale "MANIFEST does not list the existing files"
    ;;
--verify)
    built=$(mktemp -d)
    trap 'rm -rf "$built"' EXIT
    build "$built"
    diff <(results .) <(results "$built") || stale "a rebuild yields other files"
    for result in $(results .); do
        cmp "$built/$result" "$result" || stale "a rebuild yields different files"
    done
    ;;
--simulated)
    # In the folder of the caller, which is no longer current.
    clang-19 "${flags[@]}" -shared -fPIC -o "$(cd "$OLDPWD" && realpath "${2?name the library}")" simulated.c
    ;;
*)
    sed -n '2,7s/^# \{0,1\}//p' "$(basename "$0")"
    exit 2
    ;;
esac
