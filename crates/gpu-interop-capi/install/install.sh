#!/bin/sh
# Installs headers, libraries, pkg-config and CMake files on Linux: install.sh STATIC_LIBRARY PREFIX VERSION
#
# The shared library is linked from the static one, because rustc passes a version script of its own to the linker, which
# cannot be combined with one that names versions. CC selects the compiler, DESTDIR a staging folder. LDFLAGS are more
# switches of the link; the default removes the symbols of the debugger.
set -eu
[ $# -eq 3 ] || {
    echo "usage: install.sh STATIC_LIBRARY PREFIX VERSION" >&2
    exit 2
}

static=$1
prefix=$2
version=$3
here=$(cd "$(dirname "$0")" && pwd)
root=${DESTDIR:-}$prefix
major=${version%%.*}
short=$(echo "$version" | cut -d. -f1,2)
# Libraries of `rustc --print native-static-libs`.
private="-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc"

mkdir -p "$root/include" "$root/lib/pkgconfig" "$root/lib/cmake/gpu_interop"
cp "$here/../include/gpu_interop.h" "$here/../include/gpu_interop.hpp" "$root/include/"
cp "$static" "$root/lib/libgpu_interop.a"

# shellcheck disable=SC2086 # a list of switches
${CC:-cc} -shared -o "$root/lib/libgpu_interop.so.$short" \
    "-Wl,-soname,libgpu_interop.so.$major" "-Wl,--version-script=$here/gpu_interop.map" -Wl,--gc-sections -Wl,-z,defs \
    ${LDFLAGS--Wl,--strip-all} -Wl,--whole-archive "$static" -Wl,--no-whole-archive $private
ln -sf "libgpu_interop.so.$short" "$root/lib/libgpu_interop.so.$major"
ln -sf "libgpu_interop.so.$major" "$root/lib/libgpu_interop.so"

fill() {
    sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "s|@SHORT@|$short|" -e "s|@MAJOR@|$major|" \
        -e "s|@PRIVATE@|$private|" -e "s|@PRIVATE_CMAKE@|$(echo "$private" | tr ' ' ';')|" "$here/$1.in" >"$2/$1"
}
fill gpu_interop.pc "$root/lib/pkgconfig"
fill gpu_interop-config.cmake "$root/lib/cmake/gpu_interop"
fill gpu_interop-config-version.cmake "$root/lib/cmake/gpu_interop"
