#!/usr/bin/env bash
# The tests of core, driver, host and of CUDA on the simulator, under AddressSanitizer and ThreadSanitizer.
#
#   sanitize.sh [address|thread...]   without one, both
#
# The sanitizers come with Rust's toolchain, whose stable compiler takes the option if it is told to. The standard library is
# the ordinary one: what it does inside is not seen, and ThreadSanitizer takes a few of its own locks for races, which
# `ci/tsan.supp` lists.
#
# Exit status: 0 if all is clean; else that of the first test that is not.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sanitizers=("$@")
[ $# -gt 0 ] || sanitizers=(address thread)
target=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 ASAN_OPTIONS=detect_leaks=1 TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp halt_on_error=1"
for sanitizer in "${sanitizers[@]}"; do
    printf '\n=== %s s: %s sanitizer\n' "$SECONDS" "$sanitizer"
    # Without the tests that count what a process holds, or start programs that are not built so.
    RUSTFLAGS="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer" cargo test --target "$target" \
        --target-dir "target/sanitize-$sanitizer" -p gpu-interop-core -p gpu-interop-driver -p gpu-interop-host \
        -p gpu-interop-sim-cuda -p gpu-interop-cuda --lib --tests
done
