#!/bin/sh
# Installs headers, gpu_interop.dll, its import library, its list of functions (.def) and a pkg-config file, with MinGW:
# install-windows.sh STATIC_LIBRARY PREFIX VERSION
#
# STATIC_LIBRARY is built for x86_64-pc-windows-gnu. Microsoft's tools make their import library from the list of functions:
# lib /def:gpu_interop.def /out:gpu_interop.lib /machine:x64. CC selects the compiler.
set -eu
[ $# -eq 3 ] || {
    echo "usage: install-windows.sh STATIC_LIBRARY PREFIX VERSION" >&2
    exit 2
}

static=$1
prefix=$2
version=$3
here=$(cd "$(dirname "$0")" && pwd)
# Libraries of `rustc --print native-static-libs`.
private="-lws2_32 -luserenv -lntdll -lbcrypt -lsynchronization -lkernel32"

mkdir -p "$prefix/include" "$prefix/bin" "$prefix/lib/pkgconfig"
cp "$here/../include/gpu_interop.h" "$here/../include/gpu_interop.hpp" "$prefix/include/"
# Exports every function of the header. A declaration begins at the start of a line, with its return type.
{
    echo "LIBRARY gpu_interop"
    echo EXPORTS
    sed -n -e '/^static/d' -e '/^typedef/d' -e 's/^[a-z].*[ *]\(gpi_[a-z0-9_]*\)(.*/    \1/p' "$here/../include/gpu_interop.h"
} >"$prefix/lib/gpu_interop.def"

# shellcheck disable=SC2086 # a list of switches
${CC:-x86_64-w64-mingw32-gcc} -shared -static-libgcc -o "$prefix/bin/gpu_interop.dll" "$prefix/lib/gpu_interop.def" \
    "-Wl,--out-implib,$prefix/lib/libgpu_interop.dll.a" -Wl,--exclude-all-symbols -Wl,--gc-sections "$static" $private
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$version|" -e "s|@PRIVATE@|$private|" "$here/gpu_interop.pc.in" \
    >"$prefix/lib/pkgconfig/gpu_interop.pc"
