#!/usr/bin/env bash
# Runs a program of this repository with the Vulkan packages of Debian 13: a validation layer and a driver for the CPU that
# are years newer than those of Debian 12.
#
#   newer-vulkan.sh FOLDER PROGRAM [ARGUMENT...]
#
# FOLDER gets the packages, in the first call. The program runs in it, with the repository at its usual path, and in the
# current folder. Needs root, debootstrap, and a mirror of Debian.
#
# Exit status: that of the program; 2 if something is missing; 3 if the packages cannot be had.
set -euo pipefail
MISSING=2 UNREACHABLE=3
[ $# -ge 2 ] || { sed -n '2,11s/^# \{0,1\}//p' "$0" >&2; exit $MISSING; }
root=$1
shift
[ "$(id -u)" = 0 ] || { echo "newer-vulkan: needs root" >&2; exit $MISSING; }
command -v debootstrap >/dev/null || { echo "newer-vulkan: install debootstrap" >&2; exit $MISSING; }
if [ ! -e "$root/complete" ]; then
    rm -rf "$root"
    debootstrap --variant=minbase --include=libvulkan1,mesa-vulkan-drivers,vulkan-validationlayers trixie "$root" \
        >"$root.log" 2>&1 || { tail -n 5 "$root.log" >&2; exit $UNREACHABLE; }
    touch "$root/complete"
fi
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# The mounts end with the program. One driver only: with several, the loader 1.4.309 crashes in one run of three where
# threads create and destroy instances.
# shellcheck disable=SC2016
exec unshare --mount --propagation private bash -c '
    root=$0 repository=$1 folder=$PWD
    shift
    mount --rbind /dev "$root/dev"
    mount --rbind /sys "$root/sys"
    mount -t proc proc "$root/proc"
    # Before the repository, which may be below /tmp.
    mount -t tmpfs tmpfs "$root/tmp"
    mkdir -p "$root$repository"
    mount --bind "$repository" "$root$repository"
    exec chroot "$root" env -C "$folder" "VK_DRIVER_FILES=/usr/share/vulkan/icd.d/lvp_icd.json" "$@"
' "$root" "$repository" "$@"
