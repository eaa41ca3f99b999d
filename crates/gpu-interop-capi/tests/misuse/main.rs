//! Property test: random calls with null, destroyed, foreign and wrong handles, null and misaligned pointers, and random sizes.
//! No call crashes, every status is a documented one, a failed call writes nothing, and nothing leaks.
#![cfg(target_os = "linux")]
#![allow(clippy::expect_used, clippy::panic, reason = "these are tests, also outside of the test functions")]

/// A call of the C interface.
macro_rules! c {
    ($call:expr) => {
        // SAFETY: pointers are null, misaligned, or addresses of variables, texts and static memory.
        unsafe { $call }
    };
}

mod calls;
mod world;

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use gpu_interop::sync::lock;
use gpu_interop_capi::*;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use calls::{CALLS, Input};
use world::World;

/// One test at a time: they count the handles and descriptors of the process.
static ALONE: Mutex<()> = Mutex::new(());

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a folder").count()
}

/// Runs calls in a new world, and returns the number of successes.
fn run(inputs: &[Input]) -> usize {
    let before = open_descriptors();
    let mut world = World::new();
    let mut succeeded = 0;
    for input in inputs {
        let (name, call) = CALLS[usize::from(input.call) % CALLS.len()];
        let status = call(&mut world, input);
        let known = (GPI_SUCCESS..=GPI_ERROR_DRIVER).contains(&status);
        assert!(known, "{name} {input:?}: status {status}: {}", world::message());
        if status != GPI_SUCCESS {
            assert!(!world::message().is_empty(), "{name} {input:?}: no message");
            assert_eq!(world::rust_in(&world::message()), None, "{name} {input:?}: {}", world::message());
        }
        succeeded += usize::from(status == GPI_SUCCESS);
    }
    world.destroy_everything();
    assert_eq!(gpi_live_handles(), 0, "handles leaked");
    // Threads of streams close theirs shortly after.
    for _ in 0..200 {
        if open_descriptors() <= before {
            return succeeded;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    panic!("{} descriptors were open before, {} now", before, open_descriptors());
}

fn input() -> impl Strategy<Value = Input> {
    let number = prop_oneof![Just(0_u64), Just(u64::MAX), 1_u64..64, (0_u64..17).prop_map(|n| n * 4096), any::<u64>(),];
    (any::<u8>(), any::<[u16; 3]>(), [number.clone(), number.clone(), number])
        .prop_map(|(call, picks, numbers)| Input { call, picks, numbers })
}

#[test]
fn random_calls_neither_crash_nor_leak() {
    let _alone = lock(&ALONE);
    static SUCCEEDED: AtomicUsize = AtomicUsize::new(0);
    let config = Config { cases: 400, failure_persistence: None, ..Config::default() };
    let inputs = proptest::collection::vec(input(), 1..80);
    let result = TestRunner::new(config).run(&inputs, |inputs| {
        SUCCEEDED.fetch_add(run(&inputs), Ordering::Relaxed);
        Ok(())
    });
    result.unwrap_or_else(|failure| panic!("{failure}"));
    // The calls are not all rejected.
    assert!(SUCCEEDED.load(Ordering::Relaxed) > 1000, "{SUCCEEDED:?}");
}

/// Every call with every kind of wrong handle, once.
#[test]
fn every_call_rejects_every_wrong_handle() {
    let _alone = lock(&ALONE);
    let mut world = World::new();
    let ids = world.wrong_handles();
    let mut names = BTreeSet::new();
    for (index, (name, call)) in CALLS.iter().enumerate() {
        for picked in 0..ids.len() {
            let pick = u16::try_from(picked).expect("few");
            world.only(&ids[picked..=picked]);
            let input = Input { call: u8::try_from(index).expect("few"), picks: [pick; 3], numbers: [8; 3] };
            let status = call(&mut world, &input);
            assert_eq!(status, GPI_ERROR_INVALID_ARGUMENT, "{name} with {:#x}: {}", ids[picked], world::message());
            assert_eq!(world::rust_in(&world::message()), None, "{name}: {}", world::message());
        }
        names.insert(*name);
    }
    assert_eq!(names.len(), CALLS.len());
    world.all();
    world.destroy_everything();
    assert_eq!(gpi_live_handles(), 0);
}

/// Functions with a handle that no call of this test uses.
#[test]
fn the_calls_cover_the_functions() {
    /// Vulkan's functions, which `tests/vulkan.rs` calls; the others take no handle, or their wait may never end.
    const EXCEPT: [&str; 17] = [
        "gpi_abi_version",
        "gpi_version",
        "gpi_status_name",
        "gpi_last_error_status",
        "gpi_last_error_message",
        "gpi_last_error_reason",
        "gpi_last_error_operation",
        "gpi_last_error_driver_code",
        "gpi_last_error_driver_code_name",
        "gpi_live_handles",
        "gpi_set_log",
        "gpi_backend_load",
        "gpi_identity_from_uuid",
        "gpi_device_open_for",
        "gpi_exported_semaphore_create_host",
        "gpi_exported_semaphore_wrap_functions",
        "gpi_memory_import_close",
    ];
    let header = include_str!("../../include/gpu_interop.h");
    let called: BTreeSet<&str> = CALLS.iter().map(|(name, _)| *name).collect();
    let declared = header.lines().filter_map(|line| line.strip_prefix("gpi_status ")?.split_once('('));
    for (name, _) in declared {
        let excepted = EXCEPT.contains(&name) || name.contains("vulkan") || name == "gpi_semaphore_import_close";
        assert!(excepted || called.contains(name), "{name} is not called");
    }
}
