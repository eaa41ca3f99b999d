#!/usr/bin/env bash
# Sets up AMD's HIP runtimes from Debian's packages, each in a separate folder with the libraries that it needs, and with
# Mesa's Vulkan driver RADV of Debian 13; 5.2.3 runs with the system's. Nothing is installed, and root is not needed:
# `conformance run --emulate amd:VERSION` finds them there.
#
#   amd-runtimes.sh [--accept] [--newest-mesa] FOLDER VERSION...   with these: 5.2.3 5.7.1 6.4.3 7.2.4
#
# --newest-mesa takes the newest RADV of the runtime's suites, whatever the lock has.
#
# ci/amd-runtimes.lock has the packages of this project's results. Another version of one of AMD's own packages or of Mesa
# is an error; --accept accepts it and rewrites the lock. Other versions of their dependencies are only reported.
#
# A folder VERSION has `manifest` (package, version, SHA-256 of its file), libraries in `amd`, `libc` and `lib`, and
# RADV's manifest in `vulkan`.
# Packages come from the mirror that this machine's apt uses. An existing folder is only compared with the lock.
#
# Exit status: 0 if all are set up; 2 for wrong arguments or a missing tool; 3 if a suite cannot be reached, or no
# longer has a package; 4 if a package differs from the lock.
set -euo pipefail
WRONG=2 UNREACHABLE=3 DIFFERENT=4
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
lock=$repository/ci/amd-runtimes.lock
RADV=libvulkan_radeon.so

stop() {
    local status=$1
    shift
    printf 'amd-runtimes: %s\n' "$*" >&2
    exit "$status"
}

# For each version: the generation in its package's name, and the suites that have it. The last one is preferred.
declare -A generation=([5.2.3]=5 [5.7.1]=5 [6.4.3]=6 [7.2.4]=7)
declare -A suites=([5.2.3]=bookworm [5.7.1]=trixie [6.4.3]="trixie sid" [7.2.4]="trixie sid experimental")
# The package of RADV, with the suite that it is from.
declare -A mesa=([5.7.1]=mesa-vulkan-drivers/trixie [6.4.3]=mesa-vulkan-drivers/trixie [7.2.4]=mesa-vulkan-drivers/trixie)
# AMD's own packages, without their dependencies.
own='^(libamdhip64-|libhsa-runtime64-|libhsakmt|libamd-comgr)'
# Packages whose versions change results.
pinned="$own|^mesa-vulkan-drivers\$"

accept=
if [ "${1-}" = --accept ]; then
    accept=1
    shift
fi
if [ "${1-}" = --newest-mesa ]; then
    for version in "${!mesa[@]}"; do mesa[$version]="mesa-vulkan-drivers"; done
    pinned=$own
    shift
fi
[ $# -ge 2 ] || stop $WRONG "usage: amd-runtimes.sh [--accept] [--newest-mesa] FOLDER VERSION..., with these versions: 5.2.3 5.7.1 6.4.3 7.2.4"
mkdir -p "$1"
folder=$(cd "$1" && pwd)
shift
for version in "$@"; do
    [ -n "${generation[$version]-}" ] || stop $WRONG "no Debian suite is known for $version; there are 5.2.3 5.7.1 6.4.3 7.2.4"
done
for tool in apt-get dpkg-deb sha256sum; do
    command -v "$tool" >/dev/null || stop $WRONG "$tool is not installed: this needs Debian, or a system with its tools"
done

# The archive in the machine's own sources, except that of security updates.
mirror() {
    # shellcheck disable=SC2016
    local format='$(LABEL) $(REPO_URI)'
    apt-get indextargets --format "$format" "Created-By: Packages" 2>/dev/null | awk '$1 == "Debian" { print $2; exit }'
}

# Debian's keys that sign its archive.
keys=/usr/share/keyrings/debian-archive-keyring.gpg

# Downloads the packages of a version into a folder, as apt does on an empty machine.
download() {
    local version=$1 work=$2 suite archive
    [ -f $keys ] || stop $WRONG "$keys is not there; install debian-archive-keyring"
    archive=$(mirror)
    [ -n "$archive" ] || stop $WRONG "this machine's apt has no archive of Debian; add one and run apt-get update"
    mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
    : >"$work/status"
    for suite in ${suites[$version]}; do
        printf 'deb [arch=amd64 signed-by=%s] %s %s main\n' $keys "$archive" "$suite"
    done >"$work/sources"
    local options=(
        -qq
        -o APT::Architecture=amd64
        -o APT::Architectures=amd64
        -o APT::Default-Release=
        -o APT::Sandbox::User=root
        -o APT::Update::Error-Mode=any
        -o Acquire::Languages=none
        -o Acquire::Retries=3
        -o Debug::NoLocking=1
        -o Dir::Cache="$work/cache"
        -o Dir::Etc::preferences=/dev/null
        -o Dir::Etc::preferencesparts=/dev/null
        -o Dir::Etc::sourcelist="$work/sources"
        -o Dir::Etc::sourceparts=/dev/null
        -o Dir::State="$work"
        -o Dir::State::lists="$work/lists"
        -o Dir::State::status="$work/status"
    )
    apt-get "${options[@]}" update >&2 ||
        stop $UNREACHABLE "$version: its suite cannot be reached: ${suites[$version]}; see above"
    local packages=("libamdhip64-${generation[$version]}" ${mesa[$version]:+"${mesa[$version]}"})
    # The name of the last suite.
    apt-get "${options[@]}" install --download-only --yes --no-install-recommends \
        --target-release "${suites[$version]##* }" "${packages[@]}" >&2 ||
        stop $UNREACHABLE "$version: ${packages[*]} cannot be had from ${suites[$version]} today; see above"
}

# Sorts the libraries of the packages into AMD's, the C library's, and others, and writes the manifest. The others are
# in `lib`, because LLVM looks for its own in ../lib, whatever paths a program sets. The Vulkan loader is not among them: it
# and its layers stay the system's. Of Mesa only RADV is.
unpack() {
    local work=$1 new=$2 file package part names folder_of_libraries
    mkdir -p "$new/amd" "$new/libc" "$new/lib"
    for file in "$work"/cache/archives/*.deb; do
        package=$(dpkg-deb --field "$file" Package)
        if [[ $package =~ $own ]]; then part=amd; elif [ "$package" = libc6 ]; then part=libc; else part=lib; fi
        printf '%s %s %s\n' "$package" "$(dpkg-deb --field "$file" Version)" "$(sha256sum "$file" | cut -d ' ' -f 1)"
        rm -rf "$work/files"
        [ "$package" != libvulkan1 ] || continue
        names='*.so*'
        dpkg-deb --extract "$file" "$work/files"
        if [ "$package" = mesa-vulkan-drivers ]; then
            names=$RADV
            mkdir "$new/vulkan"
            # The loader takes a path with a slash as relative to the manifest.
            sed "s|\"[^\"]*$RADV\"|\"../lib/$RADV\"|" "$work"/files/usr/share/vulkan/icd.d/radeon_icd*.json >"$new/vulkan/radeon_icd.json"
        fi
        for folder_of_libraries in "$work"/files/{usr/,}lib/x86_64-linux-gnu; do
            [ -d "$folder_of_libraries" ] || continue
            find "$folder_of_libraries" -maxdepth 1 -name "$names" -exec cp -a --target-directory="$new/$part" {} +
        done
    done | LC_ALL=C sort >"$work/manifest"
    local dangling
    dangling=$(find "$new" -xtype l)
    [ -z "$dangling" ] || stop $UNREACHABLE "links that lead to no library: $dangling"
    [ -f "$new/libc/ld-linux-x86-64.so.2" ] || stop $UNREACHABLE "libc6 has no dynamic loader where it should be"
    # Written last, so that a manifest marks a complete folder.
    mv "$work/manifest" "$new/manifest"
}

# Prints the differences between a manifest and the lock. Fails for differences in AMD's packages.
compare() {
    local version=$1 manifest=$2 package found sum locked locked_sum wrong=
    if ! grep -q "^$version " "$lock" 2>/dev/null; then
        echo "$version: ci/amd-runtimes.lock knows nothing of it" >&2
        return 1
    fi
    while read -r package found sum; do
        read -r locked locked_sum < <(awk -v v="$version" -v p="$package" '$1 == v && $2 == p { print $3, $4 }' "$lock") || true
        if [ "$found" = "$locked" ] && [ "$sum" = "$locked_sum" ]; then
            continue
        elif [ "$found" = "$locked" ]; then
            echo "$version: $package $found is another file than that of the lock" >&2
            wrong=1
        elif [[ $package =~ $pinned ]]; then
            echo "$version: $package is $found, and ${locked:-not there} in the lock" >&2
            wrong=1
        else
            echo "$version: $package is $found, and ${locked:-not there} in the lock: it may move"
        fi
    done <"$manifest"
    [ -z "$wrong" ]
}

# Writes a manifest to the lock.
record() {
    local version=$1 manifest=$2
    touch "$lock"
    {
        awk -v v="$version" '$1 != v && !/^#/' "$lock"
        sed "s/^/$version /" "$manifest"
    } | LC_ALL=C sort >"$lock.new"
    {
        echo "# Packages of AMD's runtimes: release, package, version, SHA-256 of its file. ci/amd-runtimes.sh --accept writes it."
        cat "$lock.new"
    } >"$lock"
    rm "$lock.new"
}

# True if a folder has all packages of its version.
is_complete() {
    [ -f "$folder/$1/manifest" ] && { [ -z "${mesa[$1]-}" ] || grep -q '^mesa-vulkan-drivers ' "$folder/$1/manifest"; }
}

work=
trap 'rm -rf "$work"' EXIT
for version in "$@"; do
    if ! is_complete "$version"; then
        work=$(mktemp -d "$folder/.$version.XXXXXX")
        download "$version" "$work"
        unpack "$work" "$work/new"
        rm -rf "${folder:?}/$version"
        mv -T "$work/new" "$folder/$version"
        rm -rf "$work"
    fi
    if ! compare "$version" "$folder/$version/manifest"; then
        [ -n "$accept" ] ||
            stop $DIFFERENT "$version: results may differ from those of this project; --accept takes it, and writes the lock anew"
        record "$version" "$folder/$version/manifest"
    fi
    echo "$version: $folder/$version"
done
