//! Modules and kernels.

use gpu_interop::{ErrorKind, Feature, KernelArg, LaunchConfig, Result};
use gpu_interop_kernels::{FILL_PATTERN, pattern_word};

use super::bench::{Bench, seen};

/// A kernel fills memory; a kernel that the module lacks is rejected by the driver.
pub(super) fn kernels(bench: &Bench<'_>) -> Result<()> {
    const WORDS: u64 = 8;
    const SEED: u32 = 77;
    let Some(image) = bench.vendor.kernels(bench.device) else {
        bench.fact("kernels", "none for this architecture".into());
        return Ok(());
    };
    bench.fact("kernels", "those of the architecture".into());
    let module = bench.device.load_module(image)?;
    let kernel = module.kernel(FILL_PATTERN.name)?;
    let (buffer, file) = bench.buffer()?;
    let stream = bench.device.create_stream()?;
    let arguments = [KernelArg::Ptr(buffer.as_raw()), KernelArg::U64(WORDS), KernelArg::U32(SEED)];
    // SAFETY: the kernel's own arguments; the buffer has that many words, and lives until the kernel has run.
    unsafe { stream.launch(&kernel, &LaunchConfig::linear(WORDS), &arguments) }?;
    let done = stream.synchronize();
    // An address does not keep the buffer alive.
    bench.settle();
    done?;
    let expected: Vec<u8> = (0..WORDS).flat_map(|index| pattern_word(SEED, index).to_le_bytes()).collect();
    bench.check(seen::<32>(&file, 0)[..] == expected[..], "the kernel has another result");
    // The module is unloaded with its last kernel.
    drop(module);
    drop(kernel);
    unknown_kernel(bench)
}

/// The driver's own failure without a fault, which shows its names for codes.
fn unknown_kernel(bench: &Bench<'_>) -> Result<()> {
    const NOT_FOUND: i64 = 500;
    let Some(image) = bench.vendor.kernels(bench.device) else { return Ok(()) };
    bench.check(bench.device.capabilities().feature(Feature::Kernels).is_supported(), "a module without kernels");
    match bench.device.load_module(image)?.kernel(c"no_such_kernel") {
        Ok(_) => bench.wrong("there is a kernel that there is not"),
        Err(error) if error.code().is_some_and(|code| code.value == NOT_FOUND) => {
            bench.check(error.kind() == ErrorKind::InvalidArgument, "a kernel that is not there is no bad argument");
            bench.fact("an answer of the driver", error.to_string());
        }
        Err(error) => return Err(error),
    }
    let module = bench.device.load_module(image)?;
    let nameless = module.kernel(c"").map(drop).map_err(|error| (error.kind(), error.code().is_some()));
    bench
        .check(nameless == Err((ErrorKind::InvalidArgument, false)), "the driver is asked for a kernel without a name");
    Ok(())
}
