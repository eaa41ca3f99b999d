#!/usr/bin/env bash
# Tests conformance.sbatch and merge.sbatch on Slurm itself: a controller and two nodes on this machine, with their files
# in a temporary folder. Needs root and the packages slurm-wlm and munge.
#
#   test.sh FOLDER   with the `conformance` command and the simulators in it: target/release
set -euo pipefail
PATH=$PATH:/usr/sbin
slurm=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
binaries=${1?name the folder with what Cargo has built}

work=$(mktemp -d)
daemons=()
finish() {
    scancel --user "$(id -un)" 2>/dev/null && sleep 2
    kill "${daemons[@]}" 2>/dev/null && wait
    rm -rf "$work"
}
trap finish EXIT
fail() {
    printf 'FAILED: %s\n' "$*" >&2
    tail -n 20 "$work"/{slurmctld,node*}.log "$work"/conformance-*.log >&2
    exit 1
}
passed() { printf 'passed: %s\n' "$*"; }
# until_true <seconds> <command>...
until_true() {
    local ends=$((SECONDS + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$SECONDS" -lt "$ends" ] || fail "not within the time limit: $*"
        sleep 0.2
    done
}

"$slurm/../bundle.sh" --binaries "$binaries" --output "$work" >/dev/null
mkdir "$work/bundle" "$work/state"
tar -xzf "$work"/*.tar.gz -C "$work/bundle" --strip-components=1
port=$((20000 + RANDOM % 10000))
cat >"$work/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$(hostname)(127.0.0.1)
SlurmctldPort=$port
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
AuthInfo=socket=$work/munge.socket
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/%n.pid
SlurmdSpoolDir=$work/spool-%n
StateSaveLocation=$work/state
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
GresTypes=gpu
NodeName=node[1-2] NodeAddr=127.0.0.1 NodeHostname=$(hostname) Port=[$((port + 1))-$((port + 2))] Gres=gpu:1
PartitionName=test Nodes=ALL Default=YES State=UP
CONF
# Any device file serves as a GPU: Slurm only counts it.
echo 'Name=gpu File=/dev/null' >"$work/gres.conf"
export SLURM_CONF=$work/slurm.conf
head -c 128 /dev/urandom >"$work/munge.key"
chmod 400 "$work/munge.key"
munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munged.pid" \
    --log-file="$work/munged.log" --seed-file="$work/munge.seed" 2>/dev/null &
daemons+=($!)
until_true 10 test -S "$work/munge.socket"
slurmctld -D 2>"$work/slurmctld.log" &
daemons+=($!)
for node in node1 node2; do
    slurmd -D -N "$node" 2>"$work/$node.log" &
    daemons+=($!)
done
idle() { [ "$(sinfo --noheader --format=%D --states=idle)" = 2 ]; }
until_true 30 idle
cd "$work"
export BUNDLE=$work/bundle REQUIRE=cuda GPU_INTEROP_CUDA_LIBRARY=$work/bundle/simulators/libgpu_interop_sim_cuda.so

# merged <job>: collects the reports, which come from two tasks
merged() { EXPECT=2 sbatch --wait --dependency="afterany:$1" "$slurm/merge.sbatch" "reports/$1" >/dev/null; }
# shows <text> <file>...
shows() { grep -q -- "$1" "${@:2}" || fail "\`$1\` is not in ${*:2}"; }
cases='{memory,import,lifetime,timeline,leak}.*'
# submit [option of sbatch]...: starts the array; its number
submit() { sbatch --parsable --array=0-1 "$@" "$slurm/conformance.sbatch" --backend cuda --exporter native --filter "$cases"; }
# has_begun <folder>: there are results
has_begun() { [ "$(grep -c '"case"' "reports/$1/cuda.jsonl")" -gt 5 ]; }
# move <job> [folder of task 0]: requeues task 0 while it runs, and drains its node
move() {
    until_true 60 runs "$1_0"
    local node
    node=$(squeue --noheader --format=%N --job "$1_0")
    until_true 60 has_begun "$1/${2-0-$node}"
    scontrol update nodename="$node" state=drain reason=test
    scontrol requeue "$1_0"
    # Slurm itself waits for two minutes.
    until_true 60 waits "$1_0"
    until_true 60 starts "$1_0"
}
runs() { squeue --noheader --format=%T --job "$1" | grep -q RUNNING; }
waits() { squeue --noheader --format=%r --job "$1" | grep -q BeginTime; }
starts() { scontrol update jobid="$1" StartTime=now && ! waits "$1"; }
# moved <job>: the reports are those of two tasks, of which one was requeued
moved() {
    merged "$1" || fail "merge.sbatch of job $1"
    scontrol show job "$1_0" | grep -q Restarts=1 || fail "job $1 was not requeued"
    for node in node1 node2; do scontrol update nodename=$node state=resume 2>/dev/null || true; done
    until_true 30 idle
}

job=$(SHARDS=2 submit)
move "$job" shard-0
moved "$job"
shows '"resumed"' "reports/$job/shard-0/cuda.json"
shows '"source": "shard-0/cuda.json + shard-1/cuda.json"' "reports/$job/merged.json"
shows 'DUE TO JOB REQUEUE' "conformance-$job-0.log"
passed "a requeued shard continues on another node, and the shards are joined"

job=$(submit)
move "$job"
moved "$job"
folders=("reports/$job"/0-* "reports/$job.left"/0-*)
[ "${#folders[@]}" = 2 ] || fail "the folders of task 0: ${folders[*]}"
passed "a requeued task begins again on another node, and counts once"

job=$(SHARDS=2 submit)
until_true 60 has_begun "$job/shard-0"
scancel "${job}_0"
! merged "$job" || fail "a cancelled task counts as run"
again=$(SHARDS=2 REPORTS=$work/reports/$job submit --array=0 --dependency="afterany:$job")
sbatch --wait --dependency="afterany:$again" "$slurm/merge.sbatch" "reports/$job" >/dev/null || fail "the merge of job $job"
shows '"resumed"' "reports/$job/shard-0/cuda.json"
shows '"source": "shard-0/cuda.json + shard-1/cuda.json"' "reports/$job/merged.json"
passed "a cancelled shard fails the merge, and another job continues it"
