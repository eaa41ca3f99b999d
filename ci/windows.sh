#!/usr/bin/env bash
# Checks, lints and tests the workspace for Windows, on a Linux machine with Rust: tests and the suite run under Wine.
#
#   windows.sh FOLDER   where Wine keeps its files, and what it needs besides
#
# `cargo test` goes on after a failure, so that one run shows all of them.
#
# Needs rustup for the standard libraries, and Debian's gcc-mingw-w64-x86-64, wine, wine64 and wine64-preloader. What is
# missing is left out, and said. Without the last, one process in some thousands does not start: it does not get the
# addresses that Windows has for itself.
set -euo pipefail
folder=$(mkdir -p "${1?name a folder for the files of Wine}" && cd "$1" && pwd)
cd "$(dirname "${BASH_SOURCE[0]}")/.."

step() { printf '\n--- Windows: %s\n' "$*"; }
skip() { printf 'left out: %s\n' "$*"; }

# Whether there is a standard library for a target.
has() { rustc --print target-libdir --target "$1" 2>/dev/null | xargs test -d || rustup target add "$1"; }

gnu=x86_64-pc-windows-gnu
msvc=x86_64-pc-windows-msvc
has "$gnu" || { skip "everything for Windows, whose standard library could not be installed"; exit 0; }
command -v x86_64-w64-mingw32-gcc >/dev/null || { skip "everything for Windows, which needs gcc-mingw-w64-x86-64"; exit 0; }

# Not the tests of the suite that plant faults and that measure: those are Linux's. The simulators' tests are apart.
suite=(-p gpu-interop-conformance-cli --lib --bins --test negative_controls --test reports)
simulators=(--test sims)
rest=(--workspace --exclude gpu-interop-conformance-cli)

lint() {
    cargo clippy "${rest[@]}" --all-targets --target "$1" -- -D warnings
    cargo clippy "${suite[@]}" "${simulators[@]}" --target "$1" -- -D warnings
}

# Once: the tests are built for the other.
if has "$msvc"; then
    step "lints, for Microsoft's linker"
    lint "$msvc"
else
    skip "the lints for $msvc, whose standard library could not be installed"
    step "lints, for MinGW's linker"
    lint "$gnu"
fi

command -v wine >/dev/null || { skip "the tests, which need wine and wine64"; exit 0; }
# Wine's Vulkan shares no memory, and without a display it cannot do anything.
export WINEPREFIX=$folder/prefix WINEDEBUG=-all WINEDLLOVERRIDES='mscoree,mshtml,vulkan-1=' WINEPATH=$folder/shim
export CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine
# Nobody debugs these, and it takes long to link what debuggers need.
export CARGO_PROFILE_DEV_DEBUG=false

# Wine 8 lacks this library of Windows, which Rust's standard library asks for random numbers.
if [ ! -f "$folder/shim/bcryptprimitives.dll" ]; then
    mkdir -p "$folder/shim"
    cat >"$folder/random.c" <<'C'
#include <windows.h>
#include <ntsecapi.h>
__declspec(dllexport) BOOL WINAPI ProcessPrng(PBYTE bytes, SIZE_T length) {
    while (length > 0) {
        ULONG part = length > 0x10000000 ? 0x10000000 : (ULONG)length;
        if (!RtlGenRandom(bytes, part)) return FALSE;
        bytes += part;
        length -= part;
    }
    return TRUE;
}
C
    x86_64-w64-mingw32-gcc -O1 -shared -s -o "$folder/shim/bcryptprimitives.dll" "$folder/random.c" -ladvapi32
fi
[ -d "$folder/prefix" ] || wineboot --init >/dev/null 2>&1

step "tests, under $(wine --version)"
cargo test --no-fail-fast "${rest[@]}" --target "$gnu"
# Simulators are built before: Cargo does not run there.
drivers=(sim-cuda sim-d3d sim-hip)
cargo build --target "$gnu" "${drivers[@]/#/--package=gpu-interop-}"
GPU_INTEROP_SIMULATORS=Z:$(realpath "${CARGO_TARGET_DIR:-target}")/$gnu/debug
export GPU_INTEROP_SIMULATORS
cargo test --no-fail-fast "${suite[@]}" "${simulators[@]}" --target "$gnu"

step "conformance, under $(wine --version)"
# Without what only takes long there.
cargo run --target "$gnu" --bin conformance -- run --backend host --exporter native --require host,native --quiet \
    --filter '{capability,graph,graph_semaphore,identity,import,lifetime,map,memory,process,semaphore,stream,timeline}.*'
