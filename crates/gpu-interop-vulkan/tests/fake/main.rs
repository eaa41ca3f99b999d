//! Every value that reaches a driver function, compared with a table written from `vulkan_core.h` and the
//! specification: the numbers are the headers', not ash's names for them. A fake driver records the calls, so these
//! tests run without Vulkan.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

mod barriers;
mod buffers;
mod driver;
mod failures;
mod forks;
mod format;
mod images;
mod instance;
mod pictures;
mod results;
mod semaphores;
mod submissions;
mod sync_files;
mod video;

/// Compares the recorded calls; fails with the first one that differs.
#[track_caller]
fn assert_calls(expected: &[&str]) {
    let found = driver::calls();
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "call {place}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}
