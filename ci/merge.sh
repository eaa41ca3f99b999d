#!/usr/bin/env bash
# Collects the results of run.sh from several machines. Part of the bundle, beside run.sh.
#
#   merge.sh [--expect COUNT] FOLDER [option of `conformance merge`]...
#
# FOLDER has one folder per machine, each the --results of a run.sh. Prints the summary of each, and merges their
# reports into FOLDER/merged.html, one page for a browser, and FOLDER/merged.json.
#
#   --expect COUNT   fail unless there are exactly COUNT machines: a machine that crashed left no result that could fail
#
# The shards of a run (--shard) are joined to one report, which proves that no case is lost or doubled.
#
# Exit status: as run.sh, for all machines together; an incomplete run counts as not run.
set -uo pipefail

FAILED=1
NOT_RUN=2
GPU_LOST=3

self=$(readlink -f -- "${BASH_SOURCE[0]}")
conformance=${self%/*}/conformance

stop() {
    printf 'merge.sh: %s\n' "$*" >&2
    exit "$NOT_RUN"
}

expect=
if [ "${1-}" = --expect ]; then
    expect=${2-}
    [[ $expect =~ ^[0-9]+$ ]] || stop "--expect needs a number"
    shift 2
fi
case "${1-}" in
'' | -*)
    sed -n '2,${/^#/!q; s/^# \{0,1\}//p;}' "$self"
    exit "$NOT_RUN"
    ;;
esac
folder=$1
shift

failed=
not_run=
lost=
count=0
reports=()
for machine in "$folder"/*/; do
    [ -d "$machine" ] || continue
    count=$((count + 1))
    printf '=== %s\n' "$(basename "$machine")"
    case "$(tail -n 1 "$machine/summary.txt" 2>/dev/null)" in
    'exit status 0') ;;
    "exit status $FAILED") failed=1 ;;
    "exit status $GPU_LOST") lost=1 ;;
    'exit status '*) not_run=1 ;;
    *)
        not_run=1
        echo "the run did not come to its end"
        ;;
    esac
    [ ! -f "$machine/summary.txt" ] || cat "$machine/summary.txt"
    for report in "$machine"/*.json; do
        case "$report" in
        */doctor.json | *'*.json') ;;
        *) reports+=("$report") ;;
        esac
    done
done
printf '=== %s machines, %s reports\n' "$count" "${#reports[@]}"
[ "$count" -gt 0 ] || stop "no machine has left anything in $folder"
if [ -n "$expect" ] && [ "$count" -ne "$expect" ]; then
    not_run=1
    echo "there should be $expect machines"
fi

# Removes results of an earlier merge.
rm -f -- "$folder/merged.json" "$folder/merged.html"
if [ "${#reports[@]}" -gt 0 ]; then
    "$conformance" merge --json "$folder/merged.json" --html "$folder/merged.html" "$@" "${reports[@]}"
    case "$?" in
    0) echo "all of it: $folder/merged.html" ;;
    "$FAILED") failed=1 ;;
    *) not_run=1 ;;
    esac
fi

[ -z "$lost" ] || exit "$GPU_LOST"
[ -z "$failed" ] || exit "$FAILED"
[ -z "$not_run" ] || exit "$NOT_RUN"
