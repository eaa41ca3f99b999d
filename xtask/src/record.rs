//! The committed files that tests compare with what they find.

use crate::run::{Outcome, cargo};

/// Each kind of file, with the tests that write it if `GPU_INTEROP_RECORD` is set.
const FILES: &[(&str, &str)] = &[
    ("catalogue", "--package gpu-interop-conformance --lib catalogue"),
    ("shaders", "--package gpu-interop-conformance --lib shaders"),
    ("tiers", "--package gpu-interop-conformance-cli --lib tiers_are_frozen"),
    ("reports", "--package gpu-interop-conformance-cli --test reports -- readme::"),
    ("header", "--package gpu-interop-capi --test header"),
    ("controls", "--package gpu-interop-conformance-cli --test negative_controls -- does_nothing"),
    ("capi", "--package gpu-interop-conformance-cli --test capi -- through_c"),
    // Other runs are recorded by their differences from the first ones.
    ("sims", "--package gpu-interop-conformance-cli --test sims -- cuda_native"),
    ("sims", "--package gpu-interop-conformance-cli --test sims -- hip_native"),
    ("sims", "--package gpu-interop-conformance-cli --test sims -- d3d_"),
    ("sims", "--package gpu-interop-conformance-cli --test sims -- cuda_vulkan"),
    ("sims", "--package gpu-interop-conformance-cli --test sims -- hip_vulkan"),
    ("sims", "--package gpu-interop-conformance-cli --test sims -- --include-ignored hip_"),
    ("sims", "--package gpu-interop-conformance-cli --test sims -- --include-ignored cuda_"),
    ("sims", "--package gpu-interop-conformance-cli --test sims -- nvsci_suite"),
];

/// Writes the files of these kinds, or all.
///
/// # Errors
/// If a kind is unknown, or a test fails: a failure is never recorded.
pub(crate) fn record(kinds: &[String]) -> Outcome {
    if let Some(unknown) = kinds.iter().find(|kind| FILES.iter().all(|(name, _)| name != kind)) {
        let mut names: Vec<&str> = FILES.iter().map(|(name, _)| *name).collect();
        names.dedup();
        return Err(format!("no files are named {unknown}, but these: {}", names.join(", ")));
    }
    let chosen = FILES.iter().filter(|(name, _)| kinds.is_empty() || kinds.iter().any(|kind| kind == name));
    for (_, tests) in chosen {
        cargo(&format!("test {tests}")).env("GPU_INTEROP_RECORD", "1").check()?;
    }
    Ok(())
}
