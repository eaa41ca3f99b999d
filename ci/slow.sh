#!/usr/bin/env bash
# Checks that take long, or need what is not always there: tests under AddressSanitizer and ThreadSanitizer (`sanitize.sh`);
# the fault campaign with every use of every function; the suite on simulators built with optimisation; and the suite on AMD's
# newer runtimes, which come from Debian's next releases. `.ci/run` has the one from its stable release.
#
#   slow.sh [CHECK...]   address, thread, faults, simulators, or a version of AMD's runtime; without one, all of these with
#                        5.7.1, 6.4.3 and 7.2.4
#
# A suite of Debian that cannot be reached, or is not consistent today, leaves its runtime out. That is said at the end.
#
# Exit status: 0 if what was reached passed; 1 if something failed; 3 if nothing could be reached.
set -euo pipefail
FAILED=1 UNREACHABLE=3
cd "$(dirname "${BASH_SOURCE[0]}")/.."
checks=("$@")
[ $# -gt 0 ] || checks=(address thread faults simulators 5.7.1 6.4.3 7.2.4)

passed=() failed=() left_out=()
for check in "${checks[@]}"; do
    status=0
    case $check in
    address | thread)
        ci/sanitize.sh "$check" || status=$FAILED
        ;;
    faults)
        FAULT_CAMPAIGN_EVERY_USE=1 cargo test -p gpu-interop-conformance-cli --test faults -- every_fault || status=$FAILED
        ;;
    simulators)
        cargo test --release -p gpu-interop-conformance-cli --test sims || status=$FAILED
        ;;
    *)
        printf '\n=== %s s: AMD'\''s runtime %s\n' "$SECONDS" "$check"
        ci/amd.sh "$check" || status=$?
        ;;
    esac
    case $status in
    0) passed+=("$check") ;;
    "$UNREACHABLE") left_out+=("$check") ;;
    *) failed+=("$check") ;;
    esac
done

printf '\n=== %s s: passed: %s; failed: %s\n' "$SECONDS" "${passed[*]:-none}" "${failed[*]:-none}"
if [ "${#left_out[@]}" -gt 0 ]; then
    printf '\n*** LEFT OUT: %s: Debian'\''s suites could not be reached, or do not have it today. NOTHING IS KNOWN OF THESE. ***\n' \
        "${left_out[*]}"
fi
[ "${#failed[@]}" -eq 0 ] || exit $FAILED
[ "${#passed[@]}" -gt 0 ] || exit $UNREACHABLE
