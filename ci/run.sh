#!/usr/bin/env bash
# Runs the conformance suite on everything that this machine has. Part of the bundle, beside the command itself; needs
# bash and no Rust.
#
#   run.sh [--results FOLDER] [--resume] [--backend NAME]... [--require NAME,...] [option of `conformance run`]...
#
# Lists devices and drivers (`conformance doctor`), then runs the suite on each backend that has a device, or on the
# named ones, with every exporter. Other options, such as --filter GLOB, --shard 1/4, --expectations FILE or --timeout
# SECONDS, are passed to every run.
#
#   --results FOLDER   where the reports go; without it ./results, or a new folder if nothing can be written here
#   --resume           continue what a killed run.sh has left in the folder: its results count, and the rest runs. The other
#                      options must be the same. Without anything to continue, or with what another driver or device has
#                      left, all runs
#   --backend NAME     only this backend: cuda, hip or host; may be repeated
#   --require NAME     fail unless this backend or exporter (vulkan, native) really ran; a comma separates several.
#                      An exporter named beside a backend is required of that backend; alone, of every one that runs.
#
# Exit status: 0 if every run passed, 1 if a scenario failed, 2 if a run was not possible as requested, 3 if a GPU was lost.
set -uo pipefail

FAILED=1
NOT_RUN=2
GPU_LOST=3

# Resolves a link to this file, because the rest of the bundle is beside the file itself.
self=$(readlink -f -- "${BASH_SOURCE[0]}")
bundle=${self%/*}
conformance=$bundle/conformance

stop() {
    printf 'run.sh: %s\n' "$*" >&2
    exit "$NOT_RUN"
}

results=
resume=
backends=()
required=()
options=()
while [ "$#" -gt 0 ]; do
    # Both forms, --name value and --name=value.
    name=${1%%=*}
    case "$name" in
    --results | --backend | --require)
        if [ "$name" != "$1" ]; then
            value=${1#*=}
        else
            shift
            value=${1-}
        fi
        [ -n "$value" ] || stop "$name needs a value"
        case "$name" in
        --results) results=$value ;;
        --backend) backends+=("$value") ;;
        --require) IFS=, read -r -a names <<<"$value" && required+=("${names[@]}") ;;
        esac
        ;;
    --resume)
        [ "$1" = --resume ] || stop "--resume has no value; --results says what to continue"
        resume=1
        ;;
    --json | --junit | --html | --journal)
        stop "$name: the reports have names of their own; --results says where they go"
        ;;
    -h | --help)
        sed -n '2,${/^#/!q; s/^# \{0,1\}//p;}' "$self"
        exit 0
        ;;
    *) options+=("$1") ;;
    esac
    shift
done

[ -x "$conformance" ] || stop "$conformance is not there; unpack the whole bundle, and start the run.sh in it"

# is_folder <path>: makes it, if need be; fails if files cannot be made in it
is_folder() { mkdir -p -- "$1" 2>/dev/null && [ -w "$1" ]; }

if [ -n "$results" ]; then
    is_folder "$results" || stop "cannot write to $results"
elif is_folder results; then
    results=results
else
    results=$(mktemp -d "${TMPDIR:-/tmp}/conformance-results.XXXXXX") || stop "nowhere to write; use --results FOLDER"
    printf 'Nothing can be written here: the reports go to %s\n\n' "$results"
fi
# Removes files of an earlier run.
rm -f -- "$results/summary.txt" "$results/doctor.txt" "$results/doctor.json"

"$conformance" doctor 2>&1 | tee "$results/doctor.txt"
status=${PIPESTATUS[0]}
# 1: a fault of the machine, which the diagnosis names. The runs show what works in spite of it.
[ "$status" -le 1 ] || stop "\`conformance doctor\` ended with status $status; README.txt says what the command needs"
"$conformance" doctor --json >"$results/doctor.json" 2>/dev/null

# Every backend of this build, and those with a device.
line='^backend   \([^ :]*\): '
mapfile -t known < <(sed -n "s/$line.*/\1/p" "$results/doctor.txt")
mapfile -t usable < <(sed -n "/${line}not usable: /d; s/$line.*/\1/p" "$results/doctor.txt")
[ "${#known[@]}" -gt 0 ] || stop "\`conformance doctor\` named no backend"
for backend in "${known[@]}"; do
    rm -f -- "$results/$backend".{json,xml,html}
    [ -n "$resume" ] || rm -f -- "$results/$backend".{log,jsonl}
done

# is_in <name> <list>...
is_in() {
    local name=$1 other
    shift
    for other; do
        [ "$name" != "$other" ] || return 0
    done
    return 1
}

required_backends=()
required_exporters=()
for name in "${required[@]}"; do
    if is_in "$name" "${known[@]}"; then
        required_backends+=("$name")
    else
        required_exporters+=("$name")
    fi
done
[ "${#backends[@]}" -gt 0 ] || backends=("${usable[@]}")
# Also without a device: the run then fails and reports the reason.
for name in "${required_backends[@]}"; do
    is_in "$name" "${backends[@]}" || backends+=("$name")
done
[ "${#backends[@]}" -gt 0 ] || stop "no backend has a device, for the reasons above"

# run <backend>: leaves its reports and its output as files; the suite's exit status
run() {
    local backend=$1 arguments=(--backend "$1") demanded=()
    arguments+=(--json "$results/$backend.json" --junit "$results/$backend.xml" --html "$results/$backend.html")
    # The machine owner's expectations for this backend, if any, in addition to the command's.
    [ ! -f "$bundle/expectations/$backend.toml" ] || arguments+=(--expectations "$bundle/expectations/$backend.toml")
    if is_in "$backend" "${required_backends[@]}"; then
        demanded=("$backend" "${required_exporters[@]}")
    elif [ "${#required_backends[@]}" -eq 0 ]; then
        demanded=("${required_exporters[@]}")
    fi
    [ "${#demanded[@]}" -eq 0 ] || arguments+=(--require "$(IFS=, && echo "${demanded[*]}")")
    local journal=$results/$backend.jsonl status
    # Without --resume there is no journal, and a new one begins.
    "$conformance" run "${arguments[@]}" --resume "$journal" "${options[@]}" 2>&1 | tee -a "$results/$backend.log"
    status=${PIPESTATUS[0]}
    if [ "$status" -eq "$NOT_RUN" ] && [ -n "$resume" ] \
        && tail -n 1 "$results/$backend.log" | grep -q 'the journal is of another run'; then
        mv -- "$journal" "$journal.other"
        "$conformance" run "${arguments[@]}" --resume "$journal" "${options[@]}" 2>&1 | tee -a "$results/$backend.log"
        status=${PIPESTATUS[0]}
    fi
    return "$status"
}

# summarize <backend> <outcome>: what it counted, or why it could not; and why something was skipped
summarize() {
    local log=$results/$1.log words
    case "$2" in
    'not run') words=$(grep -E '^(conformance|error): ' "$log") ;;
    *) words=$(sed -n '/^[0-9]* passed, .* scenarios\{0,1\} in /s/, 0 [a-z_]*//gp' "$log") ;;
    esac
    printf '%-6s %-9s %s\n' "$1" "$2" "$(tail -n 1 <<<"${words:-$(tail -n 1 "$log")}")"
    grep -E '^[0-9]+ skipped: ' "$log" | sed 's/^/                 /'
}

failed=
not_run=
lost=
for backend in "${backends[@]}"; do
    printf '\n=== %s\n' "$backend"
    run "$backend"
    status=$?
    # A run without reports did not run.
    if [ ! -s "$results/$backend.json" ] || [ ! -s "$results/$backend.xml" ]; then
        status=$NOT_RUN
    fi
    case "$status" in
    0) outcome=passed ;;
    "$FAILED") outcome=failed failed=1 ;;
    "$GPU_LOST") outcome='GPU lost' lost=1 ;;
    *) outcome='not run' not_run=1 ;;
    esac
    summarize "$backend" "$outcome" >>"$results/summary.txt"
done
for backend in "${known[@]}"; do
    is_in "$backend" "${backends[@]}" && continue
    # The reason, without the list of attempts.
    why=$(sed -n "s/^backend   $backend: not usable: \([^[]*[^[ ]\).*/\1/p" "$results/doctor.txt")
    printf '%-6s %-9s %s\n' "$backend" "left out" "${why:-not asked for}" >>"$results/summary.txt"
done

status=0
[ -z "$not_run" ] || status=$NOT_RUN
[ -z "$failed" ] || status=$FAILED
[ -z "$lost" ] || status=$GPU_LOST
# The last line marks a complete run for tools that collect reports.
printf 'exit status %s\n' "$status" >>"$results/summary.txt"

printf '\n=== Summary\n'
cat "$results/summary.txt"
printf 'reports in %s\n' "$results"
exit "$status"
