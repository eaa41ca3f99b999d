#!/usr/bin/env bash
# Tests the bundle: packs it, unpacks it elsewhere, and runs run.sh and merge.sh as a vendor's CI does, with the
# simulators of the vendors' drivers, also with missing files and failures.
#
#   test.sh FOLDER   with the `conformance` command and the simulators in it: target/release
set -euo pipefail
ci=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binaries=${1?name the folder with what Cargo has built}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Also for the user nobody, below.
chmod 755 "$work"

fail() {
    printf 'FAILED: %s\n' "$*" >&2
    [ ! -f "$work/output" ] || sed 's/^/    | /' "$work/output" >&2
    exit 1
}
passed() { printf 'passed: %s\n' "$*"; }
# expect <status> <command>...
expect() {
    local expected=$1 status=0
    shift
    "$@" >"$work/output" 2>&1 || status=$?
    [ "$status" -eq "$expected" ] || fail "ended with $status instead of $expected: $*"
}
# shows <text> <file>...
shows() {
    local text=$1
    shift
    grep -q -- "$text" "$@" || fail "\`$text\` is not in $*"
}
# passed_count <count> <file>: checks the number of passed scenarios in a JSON report
passed_count() { shows "^    \"passed\": $1,\?$" "$2"; }

"$ci/bundle.sh" --binaries "$binaries" --output "$work/one"
expect 0 "$ci/bundle.sh" --binaries "$binaries" --output "$work/two"
cmp "$work"/one/*.tar.gz "$work"/two/*.tar.gz || fail "archives of identical files differ"
passed "the bundle is reproducible"

expect 1 env MAX_GLIBC=2.2.5 "$ci/bundle.sh" --binaries "$binaries" --output "$work/three"
shows 'newer than 2.2.5' "$work/output"
passed "a bundle for systems that it does not run on is rejected"

mkdir "$work/bundle"
tar -xzf "$work"/one/*.tar.gz -C "$work/bundle" --strip-components=1
simulators=$work/bundle/simulators
# One scenario that uses every step, with both exporters.
scenario=(--filter memory.fill)

# start <name>: into an empty folder, on a machine with neither driver
start() {
    mkdir "$work/$1"
    cd "$work/$1"
    unset GPU_INTEROP_BACKEND
    export GPU_INTEROP_CUDA_LIBRARY=/nonexistent GPU_INTEROP_HIP_LIBRARY=/nonexistent
}

start link
ln -s "$work/bundle/run.sh" there
ln -s there run
expect 0 ./run "${scenario[@]}"
shows '^host   passed ' results/summary.txt
shows '^cuda   left out  .*no CUDA driver was found' results/summary.txt
shows '^exit status 0$' results/summary.txt
shows '<testsuite ' results/host.xml
shows '"simulated": false' results/host.json
shows '<html' results/host.html
[ ! -e results/cuda.json ] || fail "a report of a backend that has no device"
passed "without a GPU the host backend runs; run.sh is found through links"

start both
export GPU_INTEROP_CUDA_LIBRARY=$simulators/libgpu_interop_sim_cuda.so
export GPU_INTEROP_HIP_LIBRARY=$simulators/libgpu_interop_sim_hip.so
expect 0 "$work/bundle/run.sh" "${scenario[@]}" --exporter=native --require=cuda,hip --require native
for backend in cuda hip host; do
    passed_count 1 "results/$backend.json"
    shows "^$backend  *passed  *1 passed; 1 scenario in " results/summary.txt
done
shows '"simulated": true' results/cuda.json
shows '"simulated": true' results/hip.json
passed "every backend that has a device runs, here on the simulators"

# The next run, in the same folder, must remove the reports above.
export GPU_INTEROP_CUDA_LIBRARY=/nonexistent
expect 2 "$work/bundle/run.sh" "${scenario[@]}" --backend host --require cuda
shows '^host   passed ' results/summary.txt
shows '^cuda   not run   .*no CUDA driver was found' results/summary.txt
shows '^hip    left out  not asked for' results/summary.txt
[ "$(echo results/*.json)" = "results/doctor.json results/host.json" ] || fail "an old report looks like a new one"
passed "a required backend without a device fails the run, the others run"

start fault
export GPU_INTEROP_CUDA_LIBRARY=$simulators/libgpu_interop_sim_cuda.so
expect 1 env GPU_INTEROP_SIM_FAIL=cuMemImportFromShareableHandle:1:999 "$work/bundle/run.sh" "${scenario[@]}" --exporter native
shows '^cuda   failed ' results/summary.txt
shows '^host   passed ' results/summary.txt
shows '<failure ' results/cuda.xml
shows '^exit status 1$' results/summary.txt
passed "a scenario that fails fails the run"

start resume
expect 0 "$work/bundle/run.sh" "${scenario[@]}" --backend host
shows '"case"' results/host.jsonl
# A journal without its last line is that of a killed run. The first `--resume` completes it; the second runs nothing.
sed -i '$d' results/host.jsonl
expect 0 "$work/bundle/run.sh" "${scenario[@]}" --backend host --resume
shows '"resumed"' results/host.jsonl
cases=$(grep -c '"case"' results/host.jsonl)
expect 0 "$work/bundle/run.sh" "${scenario[@]}" --backend host --resume
[ "$(grep -c '"case"' results/host.jsonl)" = "$cases" ] || fail "a finished run ran again"
# The journal of another run is put aside.
expect 0 "$work/bundle/run.sh" "${scenario[@]}" --backend host --resume --seed 2
shows '"seed":1' results/host.jsonl.other
shows '"seed":2' results/host.jsonl
expect 0 "$work/bundle/run.sh" "${scenario[@]}" --backend host
[ "$(grep -c '"resumed"' results/host.jsonl)" = 0 ] || fail "a run without --resume continued"
expect 2 "$work/bundle/run.sh" --resume=results/host.jsonl
passed "a killed run continues"

start lost
mkdir counts
expect 3 env GPU_INTEROP_CUDA_LIBRARY="$simulators/libgpu_interop_sim_cuda.so" GPU_INTEROP_SIM_FAIL='*:600+:719' \
    GPU_INTEROP_SIM_COUNTS="$PWD/counts" "$work/bundle/run.sh" --filter 'memory.*' --backend cuda --exporter native
shows '^cuda   GPU lost ' results/summary.txt
shows '^exit status 3$' results/summary.txt
mkdir fleet
mv results fleet/a
expect 3 "$work/bundle/merge.sh" fleet
passed "a lost GPU has an exit status of its own"

start shards
for shard in 1 2; do
    expect 0 "$work/bundle/run.sh" --filter 'identity.*' --backend host --shard "$shard/2" --results "reports/$shard"
done
expect 0 "$work/bundle/merge.sh" --expect 2 reports
shows '"source": "1/host.json + 2/host.json"' reports/merged.json
rm -r reports/2
expect 2 "$work/bundle/merge.sh" reports
shows 'of 2 shards these are missing: 2' "$work/output"
passed "shards are joined, and a missing one is found"

start options
expect 2 "$work/bundle/run.sh" --no-such-option
shows "unexpected argument '--no-such-option'" results/summary.txt
expect 2 "$work/bundle/run.sh" --json x
expect 2 "$work/bundle/run.sh" --require
expect 2 "$work/bundle/run.sh" "${scenario[@]}" --require vulcan
shows 'unknown backend or exporter' results/summary.txt
expect 2 "$work/bundle/run.sh" --filter no.such.scenario
expect 0 "$work/bundle/run.sh" --help
shows '--require NAME' "$work/output"
passed "options that make no sense are rejected"

start expectations
mkdir "$work/bundle/expectations"
printf '[[expected_failure]]\nscenario = "memory.fill"\nreason = "to be seen"\nmeasured = "here"\n' >"$work/bundle/expectations/host.toml"
expect 1 "$work/bundle/run.sh" "${scenario[@]}"
shows '^host   failed .* unexpected_pass' results/summary.txt
rm -r "$work/bundle/expectations"
passed "the bundle's expectations are passed on"

# merge.sh: two machines that passed, one that failed, one without a result.
start fleet
mkdir reports
cp -r "$work/link/results" reports/a
cp -r "$work/link/results" reports/b
expect 0 "$work/bundle/merge.sh" --expect 2 reports
shows '^=== 2 machines, 2 reports' "$work/output"
shows '<dd>a/host.json</dd>' reports/merged.html
shows '<dd>b/host.json</dd>' reports/merged.html
shows '"source": "b/host.json"' reports/merged.json
expect 2 "$work/bundle/merge.sh" --expect 3 reports
mkdir reports/c
expect 2 "$work/bundle/merge.sh" --expect 3 reports
shows 'did not come to its end' "$work/output"
cp -r "$work/fault/results" reports/d
expect 1 "$work/bundle/merge.sh" --expect 4 reports
shows '<dd>d/.*.json</dd>' reports/merged.html
mkdir nothing
expect 2 "$work/bundle/merge.sh" nothing
passed "the machines of a fleet are counted and judged together"

start read_only
# The folder of --results must exist after the run; without the option, another folder is used if necessary.
unprivileged=()
if [ "$(id -u)" = 0 ]; then
    unprivileged=(setpriv --reuid=65534 --regid=65534 --clear-groups env HOME=/nonexistent)
fi
chmod -R a-w "$work/bundle"
cd "$work/bundle"
mkdir -m 1777 "$work/temporary"
expect 0 "${unprivileged[@]}" env TMPDIR="$work/temporary" ./run.sh "${scenario[@]}" --exporter native
shows '^exit status 0$' "$work"/temporary/conformance-results.*/summary.txt
expect 2 "${unprivileged[@]}" ./run.sh --results "$work/bundle/results" "${scenario[@]}"
shows 'cannot write to' "$work/output"
chmod -R u+w "$work/bundle"
passed "the bundle may be read-only"

start without_vulkan
loader=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p | sed -n 's/.*libvulkan\.so\.1 .*=> //p' | head -n 1)
if [ -z "$loader" ]; then
    hide=()
elif unshare --mount true 2>/dev/null; then
    # shellcheck disable=SC2016
    hide=(unshare --mount bash -c 'mount --bind /dev/null "$0" && exec "$@"' "$loader")
else
    echo "left out: this machine does not let a process hide the Vulkan loader from itself"
    exit 0
fi
expect 0 "${hide[@]}" "$work/bundle/run.sh" "${scenario[@]}"
shows '1 skipped: .*install' results/summary.txt
expect 2 "${hide[@]}" "$work/bundle/run.sh" "${scenario[@]}" --require vulkan
passed "without Vulkan the rest runs; skipped scenarios are reported"
