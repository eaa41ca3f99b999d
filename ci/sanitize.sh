#!/usr/bin/env bash
# Runs tests under AddressSanitizer, with its leak check, and ThreadSanitizer: those of core, driver, host and CUDA, and
# the conformance suite of CUDA on sim-cuda, which is instrumented as well.
#
#   sanitize.sh [address|thread...]   without one, both
#
# The sanitizers come with Rust's toolchain; its stable compiler accepts the option with RUSTC_BOOTSTRAP. The standard
# library is not instrumented. tsan_edges.c announces its synchronization to ThreadSanitizer, and tsan.supp lists the
# remaining false reports; lsan.supp lists intended leaks, and sanitize.toml the omitted scenarios, each with the
# reason.
#
# Exit status: 0 if every test passed and no process reported anything; otherwise 1.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
sanitizers=("$@")
[ $# -gt 0 ] || sanitizers=(address thread)
target=$(rustc -vV | sed -n 's/^host: //p')

# One set of packages for every command: with another set, Cargo would select other features and build again.
packages=() tests=()
for package in core driver host cuda sim-cuda conformance conformance-bench conformance-cli; do
    packages+=(-p "gpu-interop-$package")
done
for file in crates/gpu-interop-{core,driver}/tests/*.rs backends/{host,cuda}/tests/*.rs; do
    tests+=(--test "$(basename "$file" .rs)")
done

step() { printf '\n=== %s s: %s sanitizer: %s\n' "$SECONDS" "$sanitizer" "$*"; }
skip() { printf 'left out: %s\n' "$*"; }

# Prints the flags that link tsan_edges.c between the program and the standard library.
edges() { # FOLDER
    local library symbols name pattern symbol defines=() flags=()
    mkdir -p "$1"
    library=$(echo "$(rustc --print target-libdir)"/libstd-*.rlib)
    symbols=$(cd "$1" && ar x "$library" && readelf -sW ./std-*.o | awk '$4 == "FUNC" && $5 == "GLOBAL" {print $8}')
    while read -r name pattern; do
        symbol=$(grep -E "$pattern" <<<"$symbols" || true)
        if [ "$(wc -w <<<"$symbol")" != 1 ]; then
            printf 'the standard library has other functions than tsan_edges.c knows: %s: %s\n' "$name" "$symbol" >&2
            return 1
        fi
        defines+=("-D$name=$symbol") flags+=("-Clink-arg=-Wl,--wrap=$symbol")
    done <<'NAMES'
MUTEX_LOCK_CONTENDED ^_RNvM.*3sys4sync5mutex5futexN.*_5Mutex14lock_contended$
RWLOCK_READ_CONTENDED ^_RNvM.*3sys4sync6rwlock5futexN.*_6RwLock14read_contended$
RWLOCK_WRITE_CONTENDED ^_RNvM.*3sys4sync6rwlock5futexN.*_6RwLock15write_contended$
CONDVAR_WAIT ^_RNvM.*3sys4sync7condvar5futexN.*_7Condvar4wait$
CONDVAR_WAIT_TIMEOUT ^_RNvM.*3sys4sync7condvar5futexN.*_7Condvar12wait_timeout$
BARRIER_WAIT ^_RNvM.*4sync7barrierN.*_7Barrier4wait$
ONCE_CALL ^_RNvM.*3sys4sync4once5futexN.*_4Once4call$
SCOPE_THREAD_ENDS ^_RNvM.*6thread6scopedN.*_9ScopeData29decrement_num_running_threads$
NAMES
    for symbol in __tsan_atomic64_fetch_sub __tsan_atomic_thread_fence; do
        flags+=("-Clink-arg=-Wl,--wrap=$symbol")
    done
    "${CC:-cc}" -O2 -fPIC -fexceptions -Wall -Wextra -Werror -c ci/tsan_edges.c "${defines[@]}" -o "$1/edges.o" || return
    echo "-Clink-arg=$1/edges.o ${flags[*]}"
}

check() { # SANITIZER
    local sanitizer=$1 folder=$PWD/target/sanitize-$1 flags
    local reports=$folder/reports
    rm -rf "$reports"
    mkdir -p "$reports"
    # Generic functions of the standard library are compiled here instead of linked. The simulator uses the sanitizer's
    # functions of the program that loads it.
    flags="-Zsanitizer=$sanitizer -Cunsafe-allow-abi-mismatch=sanitizer -Zshare-generics=no"
    flags+=" -Clink-arg=-Wl,--export-dynamic"
    # A report ends the process, so that its test fails, and is written to a file, in case the process's output is lost.
    case $sanitizer in
    address)
        export ASAN_OPTIONS="detect_leaks=1:log_path=$reports/address:exitcode=66"
        export LSAN_OPTIONS="suppressions=$PWD/ci/lsan.supp:print_suppressions=0"
        ;;
    thread)
        # Memory is mapped by functions that ThreadSanitizer intercepts, not by system calls, so that new mappings have
        # no history.
        flags+=" $(edges "$folder/edges") --cfg=rustix_use_libc" || return
        export TSAN_OPTIONS="suppressions=$PWD/ci/tsan.supp:log_path=$reports/thread:halt_on_error=1:exitcode=66"
        # The test harness captures output in a vector, under a mutex that the standard library locks unseen.
        export RUST_TEST_NOCAPTURE=1
        ;;
    *)
        printf 'no sanitizer of this script: %s\n' "$sanitizer" >&2
        return 1
        ;;
    esac
    local -x RUSTC_BOOTSTRAP=1 RUSTFLAGS=$flags CARGO_BUILD_TARGET=$target CARGO_TARGET_DIR=$folder CARGO_INCREMENTAL=0

    step "build"
    cargo build "${packages[@]}" --lib "${tests[@]}" --test sims || return
    step "tests"
    local failed=0
    # Left out: a test that counts system calls, to which the sanitizers add; tests that hide symbols of a simulator by
    # renaming them in its file, where AddressSanitizer's list of variables and functions refers to them; and one with Vulkan,
    # whose validation layer leaks memory and is unloaded before the report.
    cargo test "${packages[@]}" --lib "${tests[@]}" --no-fail-fast -- \
        --skip only_files_and_anonymous_inodes_cost_a_second_system_call \
        --skip errors_of_barriers_are_found_on_a_cpu \
        --skip an_old_driver_is_reported_by_symbol_and_version \
        --skip a_symbol_missing_from_a_new_driver_is_an_incomplete_installation || failed=1
    step "conformance of CUDA on sim-cuda"
    # Scenarios that count resources would see freed memory in quarantine, so the quarantine is smaller.
    [ "$sanitizer" = thread ] || ASAN_OPTIONS+=:quarantine_size_mb=1:thread_local_quarantine_size_kb=1
    GPU_INTEROP_CUDA_LIBRARY=$folder/$target/debug/libgpu_interop_sim_cuda.so cargo test "${packages[@]}" --test sims -- \
        run --backend cuda --exporter native --require cuda,native --jobs 2 --retries 0 \
        --expectations "$PWD/ci/sanitize.toml" || failed=1
    skip "exporters of Vulkan: their drivers are not built for the sanitizer"

    step "reports"
    local files=("$reports"/*)
    [ -e "${files[0]}" ] || return $failed
    cat "${files[@]}"
    return 1
}

clean=() found=()
for sanitizer in "${sanitizers[@]}"; do
    if check "$sanitizer"; then clean+=("$sanitizer"); else found+=("$sanitizer"); fi
done
printf '\n=== %s s: clean: %s; not clean: %s\n' "$SECONDS" "${clean[*]:-none}" "${found[*]:-none}"
[ "${#found[@]}" -eq 0 ]
