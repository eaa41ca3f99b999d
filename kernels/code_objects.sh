# AMD's targets, and how a source becomes a code object; for other scripts to include.
# shellcheck shell=bash

# Code objects of version 4, which HIP 5.2 to 7.2 load (5.2 rejects version 5). They keep their symbol tables: AMD's
# loader looks up .symtab and .strtab by name and crashes without them (HIP 5.2 to 6.4).
architectures=(gfx906 gfx908 gfx90a gfx942 gfx1030 gfx1100 gfx1201)
# One object per family for the members not listed above. These have version 6, which only newer ROCm loads.
families=(gfx9-generic gfx10-1-generic gfx10-3-generic gfx11-generic gfx12-generic)

# code_objects <source> <folder> <flag>...: TARGET.hsaco for all targets
code_objects() {
    local target
    for target in "${architectures[@]}"; do
        code_object "$target" "$@" -mcode-object-version=4
    done
    for target in "${families[@]}"; do
        # -w suppresses the warning of clang-19 that version 6 is experimental, which has no switch of its own.
        code_object "$target" "$@" -mcode-object-version=6 -w
    done
}

# code_object <target> <source> <folder> <flag>...
code_object() {
    local target=$1 source=$2 folder=$3
    clang-19 --target=amdgcn-amd-amdhsa -mcpu="$target" -nogpulib "${@:4}" -c -o "$folder/$target.o" "$source"
    ld.lld-19 -shared --build-id=none -o "$folder/$target.hsaco" "$folder/$target.o"
    rm "$folder/$target.o"
    chmod 644 "$folder/$target.hsaco"
}
