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

# Code objects of version 4, which HIP 5.2 to 7.2 load (5.2 rejects version 5). They keep their symbol tables: AMD's
# loader looks up .symtab and .strtab by name and crashes without them (HIP 5.2 to 6.4).
architectures=(gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1201)
# One object per family for the members not listed above. These have version 6, which only newer ROCm loads.
families=(gfx9-generic gfx10-1-generic gfx10-3-generic gfx11-generic gfx12-generic)

flags=(-std=c17 -O2 -ffreestanding -fno-ident -Wall -Wextra -Werror)

# build <folder>
build() {
    # Every GPU since Volta, every driver since 384 (CUDA 9.0, PTX 6.0).
    clang-19 --target=nvptx64-nvidia-cuda -march=sm_70 -Xclang -target-feature -Xclang +ptx60 "${flags[@]}" \
        -S -o "$1/kernels.ptx" device/kernels.c
    local target
    for target in "${architectures[@]}"; do
        code_object "$target" "$1" -mcode-object-version=4
    done
    for target in "${families[@]}"; do
        # -w suppresses the warning of clang-19 that version 6 is experimental, which has no switch of its own.
        code_object "$target" "$1" -mcode-object-version=6 -w
    done
}

# code_object <target> <folder> <flag>...
code_object() {
    local target=$1 folder=$2
    clang-19 --target=amdgcn-amd-amdhsa -mcpu="$target" -nogpulib "${flags[@]}" "${@:3}" \
        -c -o "$folder/$target.o" device/kernels.c
    ld.lld-19 -shared --build-id=none -o "$folder/$target.hsaco" "$folder/$target.o"
    rm "$folder/$target.o"
    chmod 644 "$folder/$target.hsaco"
}

sources() { printf '%s\n' build.sh device/*; }
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
