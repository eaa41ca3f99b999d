#!/usr/bin/env bash
# Builds the bundle for a vendor's CI: one archive with the `conformance` command, for machines without Rust.
#
#   bundle.sh [--target TRIPLE] [--output FOLDER] [--binaries FOLDER] [--wgpu]
#
#   --target TRIPLE     what to build for, as Cargo names it; without it, this machine
#   --output FOLDER     where the archive goes; without it, the current folder
#   --binaries FOLDER   build nothing, take the files from here: what Cargo has built somewhere
#   --wgpu              `conformance bench` measures frames of wgpu, too; needs glibc 2.35, for wgpu's shader compiler
#
# The same source and compiler give the same bytes: names are sorted, owners and times are set, and the files do not
# contain the paths of this machine. SOURCE_DATE_EPOCH is the time, by default that of the last commit. Needs Rust, GNU
# tar and binutils; STRIP and READELF name those of another target.
#
# The command runs with the C library of this machine or a newer one. MAX_GLIBC is the newest version of glibc that it
# may need, by default 2.34: Debian 12, Ubuntu 22.04, RHEL 9; with --wgpu 2.35, which RHEL 9 lacks. For older systems,
# build on one.
set -euo pipefail
shopt -s nullglob
export LC_ALL=C
root=$(cd "$(dirname "$(readlink -f -- "${BASH_SOURCE[0]}")")/.." && pwd)
crates=${CARGO_HOME:-$HOME/.cargo}/registry/src

stop() {
    printf 'bundle.sh: %s\n' "$*" >&2
    exit 1
}

target=
output=$PWD
binaries=
wgpu=
while [ "$#" -gt 0 ]; do
    case "$1" in
    --target | --output | --binaries)
        [ -n "${2-}" ] || stop "$1 needs a value"
        case "$1" in
        --target) target=$2 ;;
        --output) output=$(mkdir -p -- "$2" && cd -- "$2" && pwd) ;;
        --binaries) binaries=$(cd -- "$2" && pwd) ;;
        esac
        shift 2
        ;;
    --wgpu)
        wgpu=1
        shift
        ;;
    *)
        sed -n '2,${/^#/!q; s/^# \{0,1\}//p;}' "${BASH_SOURCE[0]}"
        [ "$1" = --help ] && exit 0
        exit 2
        ;;
    esac
done
cd "$root"
newest_glibc=2.34
[ -z "$wgpu" ] || newest_glibc=2.35
max_glibc=${MAX_GLIBC:-$newest_glibc}

# The libraries of conformance/sim with which the whole suite runs; others are for single tests.
simulators=(gpu-interop-sim-cuda gpu-interop-sim-hip gpu-interop-hip-on-cuda)

if [ -z "$binaries" ]; then
    # A separate folder: with other flags Cargo rebuilds everything.
    folder=$(cargo metadata --format-version 1 --no-deps | sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p')/bundle
    export RUSTFLAGS="${RUSTFLAGS-} --remap-path-prefix=$root=/gpu-interop --remap-path-prefix=$crates=/crates"
    arguments=(--profile dist --locked --target-dir "$folder" ${target:+--target "$target"})
    cargo build "${arguments[@]}" --bin conformance ${wgpu:+--features gpu-interop-conformance-cli/wgpu}
    for package in "${simulators[@]}"; do
        cargo build "${arguments[@]}" --package "$package"
    done
    binaries=$folder/${target:+$target/}dist
fi
target=${target:-$(rustc -vV | sed -n 's/^host: //p')}
version=$(cargo pkgid --package gpu-interop-conformance | sed 's/.*[#@]//')
commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
time=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

name=gpu-interop-conformance-$version-$target
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
bundle=$work/$name
mkdir -p "$bundle/simulators" "$bundle/licences"

# Fails unless a file only needs libraries that every Linux system with glibc has; prints the glibc that it needs.
needs() {
    local library newest
    while read -r library; do
        case "$library" in
        libc.so.6 | libm.so.6 | libdl.so.2 | libpthread.so.0 | librt.so.1 | libgcc_s.so.1 | ld-linux*.so.*) ;;
        *) stop "$1 is linked with $library, which a lab machine may not have" ;;
        esac
    done < <("${READELF:-readelf}" -d "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]$/\1/p')
    newest=$("${READELF:-readelf}" -V "$1" | sed -n 's/.*Name: GLIBC_\([0-9.]*\) .*/\1/p' | sort -uV | tail -n 1)
    [ -n "$newest" ] || stop "readelf finds no version of glibc in $1"
    [ "$(printf '%s\n' "$newest" "$max_glibc" | sort -V | tail -n 1)" = "$max_glibc" ] \
        || stop "$1 needs glibc $newest, newer than $max_glibc: build on an older system, or set MAX_GLIBC"
    echo "$newest"
}

# Without symbols and debugging information, so that a driver's stack shows only the driver's names.
"${STRIP:-strip}" -o "$bundle/conformance" "$binaries/conformance"
glibc=$(needs "$bundle/conformance")
echo "conformance: glibc $glibc"
for package in "${simulators[@]}"; do
    library=lib${package//-/_}.so
    "${STRIP:-strip}" -o "$bundle/simulators/$library" "$binaries/$library"
    needed=$(needs "$bundle/simulators/$library")
    echo "$library: glibc $needed"
done

cp ci/run.sh ci/merge.sh "$bundle/"

# The licences of all code linked into the files above. The embedded kernels are this project's own.
cp LICENSE-APACHE LICENSE-MIT "$bundle/licences/"
text=$(rustc --print sysroot)/share/doc/rust/COPYRIGHT-library.html
[ ! -f "$text" ] || cp "$text" "$bundle/licences/rust-standard-library.html"
licences() {
    local package
    for package in "gpu-interop-conformance-cli${wgpu:+ --features wgpu}" "${simulators[@]}"; do
        # shellcheck disable=SC2086 # A name, and an option.
        cargo tree --locked --package $package --target "$target" --edges normal,no-proc-macro --prefix none \
            --format '{p}|{l}'
    done | sed -e 's/ (\*)$//' -e 's/^\([^ ]*\) v\([^ |]*\)[^|]*/\1 \2/' | grep -v '^gpu-interop' | sort -u
}
{
    echo "Linked into the files of this bundle, beside gpu-interop itself: Rust's standard library (MIT OR Apache-2.0),"
    echo "and these crates. The texts that a crate comes with are in the folder of its name."
    echo
    licences | while IFS='|' read -r crate licence; do
        folder=${crate/ /-}
        for text in "$crates"/*/"$folder"/{LICEN[CS]E,COPY,NOTICE,UNLICENSE}*; do
            [ -f "$text" ] || continue
            mkdir -p "$bundle/licences/$folder"
            cp "$text" "$bundle/licences/$folder/"
        done
        [ -d "$bundle/licences/$folder" ] || licence+=" (the crate has no text)"
        printf '%-40s %s\n' "$crate" "$licence"
    done
} >"$bundle/licences/THIRD-PARTY.txt"
texts=("$bundle"/licences/*/)
[ "${#texts[@]}" -gt 10 ] || stop "the texts of the crates' licences are not in $crates"

cat >"$bundle/README.txt" <<TEXT
gpu-interop conformance suite $version for $target, commit $commit

Needs: Linux with glibc $glibc or newer, bash, and the GPU's driver. For the Vulkan exporter also the Vulkan loader
(libvulkan.so.1) and a Vulkan driver; Vulkan's validation layer is used if it is installed. For the scenarios with OpenGL
also EGL (libEGL.so.1) and an OpenGL driver. No Rust, no toolkit.

    ./run.sh                               everything that this machine has; reports in ./results
    ./run.sh --require cuda,vulkan         the same, and fails unless CUDA really ran with Vulkan
    ./run.sh --filter 'memory.*'           some of it; any option of "./conformance run" does
    ./run.sh --help                        the rest
    ./conformance doctor                   what is there, what it can do, what is missing
    ./conformance list                     the scenarios and what each shows
    ./conformance run --help               every option
    ./conformance man run | man -l -       the same as a manual page; "completions bash" completes them

Exit status: 0 every run passed, 1 something that ran has failed, 2 something could not be run as asked, 3 a GPU was lost.

results/summary.txt    one line a backend; the last line is the exit status
results/doctor.txt     what was found on the machine; doctor.json is the same for programs
results/BACKEND.json   the report: device, driver, capabilities, every scenario with its outcome and reason
results/BACKEND.xml    the same as JUnit XML, for a CI system; BACKEND.html for people
results/BACKEND.log    what the run printed
results/BACKEND.jsonl  the journal by which ./run.sh --resume continues a killed run

./merge.sh FOLDER      collects the results of several machines, each in a folder of its own within FOLDER, and lays them
                       side by side on one page, FOLDER/merged.html

expectations/          if you make it: run.sh passes BACKEND.toml in it, what you know not to work, beside what the command
                       itself knows
simulators/            simulators of the vendors' drivers, to try all of this on a machine without a GPU. A report
                       made with one says so in its first line:

    GPU_INTEROP_CUDA_LIBRARY=\$PWD/simulators/libgpu_interop_sim_cuda.so ./run.sh --backend cuda --exporter native
    GPU_INTEROP_HIP_LIBRARY=\$PWD/simulators/libgpu_interop_sim_hip.so ./run.sh --backend hip --exporter native

                       With NVIDIA's driver in AMD's place, the HIP backend moves data on an NVIDIA GPU:

    GPU_INTEROP_HIP_LIBRARY=\$PWD/simulators/libgpu_interop_hip_on_cuda.so ./run.sh --require hip

licences/              this project's, and those of the crates that are linked in
TEXT

# Independent of the umask and of the copied files.
chmod -R u=rwX,go=rX "$bundle"
chmod 755 "$bundle/conformance" "$bundle"/*.sh
chmod 644 "$bundle"/simulators/*
archive=$output/$name.tar.gz
tar --create --file - --directory "$work" --sort=name --format=gnu --mtime="@$time" --owner=0 --group=0 \
    --numeric-owner "$name" | gzip --no-name --best >"$archive.new"
mv "$archive.new" "$archive"
echo "$archive: $(wc -c <"$archive") bytes"
