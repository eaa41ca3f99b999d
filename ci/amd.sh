#!/usr/bin/env bash
# Runs the conformance suite on AMD's own HIP runtimes and an emulated kernel driver, on a Debian machine without a GPU,
# including all setup.
#
#   amd.sh [--newest-mesa] [VERSION...]   runtimes, as in ci/amd-runtimes.sh; without one, 5.2.3
#
# Installs packages if it is root, and otherwise lists the missing ones. Needs Rust. Sets the runtimes up in target/amd,
# unless the system has the same one installed; with --newest-mesa, in target/amd-newest-mesa. Reports are in
# target/amd-results, by version: JSON, JUnit, one page.
#
# Exit status: 0 if all results are as expected; 1 if a scenario failed; 2 if something is missing; 3 and 4 as from
# ci/amd-runtimes.sh: a suite that cannot be reached, packages that differ from the lock.
set -euo pipefail
FAILED=1 MISSING=2
cd "$(dirname "${BASH_SOURCE[0]}")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
root=$target/amd
results=$target/amd-results
options=()
if [ "${1-}" = --newest-mesa ]; then
    root=$target/amd-newest-mesa
    options=(--newest-mesa)
    shift
fi
versions=("$@")
[ $# -gt 0 ] || versions=(5.2.3)

stop() {
    local status=$1
    shift
    printf 'amd: %s\n' "$*" >&2
    exit "$status"
}

packages=(ca-certificates gcc libc6-dev libvulkan1 mesa-vulkan-drivers patchelf vulkan-validationlayers)
command -v dpkg-query >/dev/null || stop $MISSING "this needs Debian, or a system with its tools"
missing=()
for package in "${packages[@]}"; do
    # shellcheck disable=SC2016
    [ "$(dpkg-query --show --showformat '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || missing+=("$package")
done
if [ "${#missing[@]}" -gt 0 ]; then
    [ "$(id -u)" = 0 ] || stop $MISSING "install these packages, or run this as root: ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
command -v cargo >/dev/null || stop $MISSING "Rust is not installed; the README says which version, and rustup installs it"

cargo build --release -p gpu-interop-conformance-cli -p gpu-interop-emulated-amdgpu --target-dir "$target"

# Whether the system's own runtime is of this release.
is_installed() {
    # shellcheck disable=SC2016
    dpkg-query --show --showformat '${Version}\n' "libamdhip64-${1%%.*}" 2>/dev/null | grep -q "^$1-"
}

mkdir -p "$results"
failed=()
for version in "${versions[@]}"; do
    is_installed "$version" || ci/amd-runtimes.sh "${options[@]}" "$root" "$version"
    printf '\n%s\n' "AMD's runtime $version:"
    report=$results/$version
    "$target/release/conformance" run --emulate "amd:$version" --emulate-root "$root" --require hip,vulkan --quiet \
        --retries 0 --json "$report.json" --junit "$report.xml" --html "$report.html" || failed+=("$version")
    # Streams that wait for each other, 16 of them on 4 hardware queues: progress depends on the order of events.
    "$target/release/conformance" run --emulate "amd:$version" --emulate-root "$root" --require hip,vulkan --quiet \
        --retries 0 --exporter vulkan --filter 'timeline.{dependencies,chain}.bridge' --repeat 100 || failed+=("$version, 100 times")
done

printf '\n'
reports=("${versions[@]/#/$results/}")
"$target/release/conformance" merge "${reports[@]/%/.json}"
[ "${#failed[@]}" -eq 0 ] || stop $FAILED "failed: ${failed[*]}; the reports are in $results"
