//! Compares structs and constants with AMD's installed header through a C compiler. Debian installs HIP 5; `layout.rs`
//! compares HIP 6 and later with generated bindings on every machine. The test is ignored, with the reason, if the
//! header is missing.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests")]

#[path = "../src/sys/generation_5.rs"]
mod generation_5;

use std::fmt::Write as _;
use std::mem::{offset_of, size_of};
use std::path::Path;
use std::process::Command;

use gpu_interop_driver::abi;
use libtest_mimic::{Arguments, Completion, Failed, Trial};

const HEADERS: [&str; 2] = ["/usr/include", "/opt/rocm/include"];
const HEADER: &str = "hip/hip_runtime_api.h";

fn main() {
    let trials = vec![Trial::ignorable_test("structs_are_laid_out_as_in_the_header", structs)];
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}

/// C name and size of each struct, with the C names and offsets of its fields.
type Layouts = Vec<(&'static str, usize, Vec<(&'static str, usize)>)>;

macro_rules! layouts {
    ($module:ident) => {
        vec![
            layouts!($module, MemoryHandleDesc, "hipExternalMemoryHandleDesc", kind "type", handle "handle",
                size "size", flags "flags"),
            layouts!($module, MemoryBufferDesc, "hipExternalMemoryBufferDesc", offset "offset", size "size",
                flags "flags"),
            layouts!($module, SemaphoreHandleDesc, "hipExternalSemaphoreHandleDesc", kind "type", handle "handle",
                flags "flags"),
            layouts!($module, SemaphoreSignalParams, "hipExternalSemaphoreSignalParams",
                fence_value "params.fence.value", key "params.keyedMutex.key", flags "flags"),
            layouts!($module, SemaphoreWaitParams, "hipExternalSemaphoreWaitParams",
                fence_value "params.fence.value", key "params.keyedMutex.key",
                timeout_ms "params.keyedMutex.timeoutMs", flags "flags"),
        ]
    };
    ($module:ident, $name:ident, $theirs:literal, $($field:ident $their_field:literal),+) => {
        ($theirs, size_of::<$module::$name>(), vec![$(($their_field, offset_of!($module::$name, $field))),+])
    };
}

/// Returns a C program that compiles if the layouts match the header.
fn program(condition: &str, layouts: Layouts) -> String {
    let mut text = format!("#if {condition}\n");
    for (name, size, fields) in layouts {
        let _ = writeln!(text, "_Static_assert(sizeof({name}) == {size}, \"size of {name}\");");
        for (field, offset) in fields {
            let _ = writeln!(text, "_Static_assert(offsetof({name}, {field}) == {offset}, \"{name}.{field}\");");
        }
    }
    text + "#endif\n"
}

/// Compiles a program that includes the header. The error contains the compiler's output.
fn compile(folder: &Path, headers: &str, text: &str) -> Result<(), String> {
    let source = folder.join("header.c");
    std::fs::write(&source, format!("#include <stddef.h>\n#include <{HEADER}>\n{text}")).expect("a file");
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
    let output = Command::new(&compiler)
        .args(["-std=gnu11", "-fsyntax-only", "-w", "-D__HIP_PLATFORM_AMD__", "-I", headers])
        .arg(&source)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

fn structs() -> Result<Completion, Failed> {
    if cfg!(windows) {
        return Ok(Completion::ignored_with("AMD's header is compared on Linux only"));
    }
    let Some(headers) = HEADERS.into_iter().find(|folder| Path::new(folder).join(HEADER).exists()) else {
        return Ok(Completion::ignored_with("AMD's header is not installed (Debian's package: libamdhip64-dev)"));
    };
    let folder = tempfile::tempdir()?;
    let (five, later) = ("HIP_VERSION_MAJOR == 5", "HIP_VERSION_MAJOR >= 6");
    compile(folder.path(), headers, &program(five, layouts!(generation_5)))?;
    compile(folder.path(), headers, &program(later, layouts!(abi)))?;
    // Constants that must be equal in both generations, because the library does not select them by version.
    let numbers = "
        _Static_assert(hipDeviceAttributeCanUseStreamWaitValue == 10013, \"attribute\");
        _Static_assert(hipStreamNonBlocking == 1 && hipEventDisableTiming == 2, \"flags\");
        _Static_assert(hipErrorNotReady == 600 && hipErrorNoDevice == 100 && hipErrorInvalidDevice == 101, \"codes\");
        _Static_assert(hipExternalMemoryHandleTypeOpaqueFd == 1, \"memory\");
        _Static_assert(hipExternalSemaphoreHandleTypeD3D12Fence == 4, \"semaphore\");
        _Static_assert(sizeof(hipMemAllocationProp) == 32 && sizeof(hipMemAccessDesc) == 12, \"virtual memory\");";
    compile(folder.path(), headers, numbers)?;
    // HIP 5.2 defines neither this attribute nor another one with its number, so the program declares the name.
    let managed = "
        #if HIP_VERSION_MAJOR >= 6
        _Static_assert(hipDeviceAttributeVirtualMemoryManagementSupported == 89, \"attribute\");
        #elif HIP_VERSION_MINOR <= 2
        _Static_assert(hipDeviceAttributeMemoryPoolsSupported == 88, \"the last before AMD's own\");
        int hipDeviceAttributeVirtualMemoryManagementSupported;
        #endif";
    compile(folder.path(), headers, managed)?;
    let properties = "
        #if HIP_VERSION_MAJOR == 5
        _Static_assert(offsetof(hipDeviceProp_t, gcnArchName) == 396, \"gcnArchName\");
        #endif";
    compile(folder.path(), headers, properties)?;
    // Negative control: the other generation's layouts must not compile.
    let swapped =
        |condition| program(condition, if condition == five { layouts!(abi) } else { layouts!(generation_5) });
    let rejected =
        [swapped(five), swapped(later)].into_iter().filter(|text| compile(folder.path(), headers, text).is_err());
    assert_eq!(rejected.count(), 1, "exactly one generation is installed, and its structs differ from the other's");
    Ok(Completion::Completed)
}
