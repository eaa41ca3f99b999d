//! Version and constants without an area of their own.

/// Version of the interface: the number changes when a program compiled with an older header would not work.
pub const GPI_ABI_VERSION: u32 = 1;

/// Version of this header and library, such as 0x000100 for 0.1.0: major, minor and patch, 8 bits each.
pub const GPI_VERSION: u32 = 0x00_01_00;

/// Size that stands for all bytes up to the end of the memory.
pub const GPI_WHOLE_SIZE: u64 = 0xffff_ffff_ffff_ffff;

/// Timeout in nanoseconds that never expires.
pub const GPI_NO_TIMEOUT: u64 = 0xffff_ffff_ffff_ffff;

/// Returns `GPI_ABI_VERSION` of the loaded library. Compare it with the header's before any other call.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_abi_version() -> u32 {
    GPI_ABI_VERSION
}

/// Returns `GPI_VERSION` of the loaded library.
#[unsafe(no_mangle)]
pub extern "C" fn gpi_version() -> u32 {
    GPI_VERSION
}
