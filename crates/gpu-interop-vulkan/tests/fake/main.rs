//! Every value that reaches a function of the driver, compared with a table written from `vulkan_core.h` and the
//! specification: the numbers are the headers', not ash's names for them. The driver only writes down what it is called
//! with, so these tests run without Vulkan.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "these are tests, also outside of the test functions")]

mod answers;
mod barriers;
mod buffers;
mod driver;
mod images;
mod instance;
mod request;
mod semaphores;
mod show;
mod submissions;

/// Fails with the first line that differs.
#[track_caller]
fn assert_calls(expected: &[&str]) {
    let found = driver::calls();
    for (place, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert_eq!(found, expected, "call {place}");
    }
    assert_eq!(found.len(), expected.len(), "{found:#?}");
}
