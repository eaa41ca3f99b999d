//! The `cudarc` module with cudarc itself: contexts, streams and memory of both libraries.
//!
//! On a machine with NVIDIA's driver the tests run on it. Without, each runs in a process of this program that finds
//! the simulator of CUDA where cudarc looks for the driver, so the program needs the simulator's sources or
//! `GPU_INTEROP_SIMULATORS`. Without either, and without Vulkan, it prints `skipped:` and the reason, or fails
//! if `GPU_INTEROP_REQUIRE_CUDARC` is set.
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

mod drops;
mod machine;
mod memory;
mod rejected;

use libtest_mimic::{Arguments, Trial};

use crate::machine::Test;

/// Tests that need a driver or the simulator, by name.
const TESTS: &[Test] = &[
    ("contexts_and_devices_are_found_by_each_other", rejected::contexts_and_devices_are_found_by_each_other),
    ("other_contexts_are_rejected", rejected::other_contexts_are_rejected),
    ("other_streams_are_rejected", rejected::other_streams_are_rejected),
    ("other_buffers_are_rejected", rejected::other_buffers_are_rejected),
    ("a_thousand_hand_overs", memory::a_thousand_hand_overs),
    ("copies_in_both_directions", memory::copies_in_both_directions),
    ("views_of_parts", memory::views_of_parts),
    ("slices_of_cudarc_are_operands", memory::slices_of_cudarc_are_operands),
    ("borrowed_slices_have_no_pending_work", memory::borrowed_slices_have_no_pending_work),
    ("slices_of_cudarc_are_freed", memory::slices_of_cudarc_are_freed),
    ("every_drop_order", drops::every_drop_order),
    ("dropped_while_another_stream_of_cudarc_uses_it", drops::dropped_while_another_stream_of_cudarc_uses_it),
    ("dropping_a_slice_frees_nothing", drops::dropping_a_slice_frees_nothing),
    ("an_earlier_error_of_cudarc_is_kept", drops::an_earlier_error_of_cudarc_is_kept),
];

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some(machine::CHILD) => return machine::child(TESTS, &arguments.next().unwrap_or_default()),
        Some(rejected::CHILD) => return rejected::child(),
        _ => {}
    }
    let mut trials = vec![
        Trial::test("nothing_panics_without_a_driver", rejected::nothing_panics_without_a_driver),
        Trial::test("another_library_than_cudarcs_is_rejected", rejected::another_library_is_rejected),
    ];
    trials.extend(TESTS.iter().map(|(name, test)| Trial::test(*name, move || machine::run(name, *test))));
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
