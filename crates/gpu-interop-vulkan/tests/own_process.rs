//! Tests that need a process of their own: a bridge beside a validation layer that stalls is named in a warning, once; the
//! drivers stay loaded; and a fork after a failed start, which used no driver.

#![cfg(target_os = "linux")]
#![allow(clippy::expect_used)]

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::sync::Mutex;

use ash::vk;
use gpu_interop_core::{ErrorKind, ExporterTimeline};
use gpu_interop_test_support::in_own_process;
use gpu_interop_vulkan::{HeadlessContext, HeadlessOptions, OwnedSemaphore, load_entry};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// The fields of each warning.
static WARNINGS: Mutex<Vec<String>> = Mutex::new(Vec::new());

struct Warnings;

struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0 += &format!("{field}: {value:?}; ");
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut text = Text(String::new());
        event.record(&mut text);
        WARNINGS.lock().expect("no panic").push(text.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Warnings of bridges of a context.
fn warnings(context: &HeadlessContext) -> Vec<String> {
    for _ in 0..2 {
        let timeline = OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline");
        drop(timeline.waiter().expect("a waiter"));
    }
    let mut found = std::mem::take(&mut *WARNINGS.lock().expect("no panic"));
    found.retain(|text| text.contains("bridge"));
    found
}

#[test]
fn a_bridge_beside_an_old_layer_is_warned_of_once() {
    if !in_own_process("a_bridge_beside_an_old_layer_is_warned_of_once") {
        return;
    }
    tracing::subscriber::set_global_default(Warnings).expect("the first one");
    let Ok(plain) = HeadlessContext::new(&HeadlessOptions::default()) else { return };
    assert_eq!(warnings(&plain), [""; 0]);
    let entry = load_entry().expect("a loader");
    // SAFETY: the entry is a Vulkan loader's.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.expect("layers");
    let layer = layers.iter().find(|layer| layer.layer_name_as_c_str() == Ok(c"VK_LAYER_KHRONOS_validation"));
    let Some(layer) = layer else { return println!("skipped: the validation layer is not installed") };
    let validated = HeadlessContext::new(&HeadlessOptions::default().validation(true)).expect("a context");
    let found = warnings(&validated);
    if layer.spec_version < vk::make_api_version(0, 1, 4, 304) {
        assert_eq!(found.len(), 1, "{found:?}");
        for words in ["1.4.304", "turn validation off", "10 s"] {
            assert!(found[0].contains(words), "{found:?} should contain: {words}");
        }
    } else {
        assert_eq!(found, [""; 0]);
    }
}

/// NVIDIA's driver 580 loads no more than 12 to some hundred times in one process.
#[test]
fn drivers_stay_loaded_without_a_context() {
    if !in_own_process("drivers_stay_loaded_without_a_context") {
        return;
    }
    let libraries = || {
        let mapped = std::fs::read_to_string("/proc/self/maps").expect("maps");
        let files = mapped.lines().filter_map(|line| line.split_whitespace().nth(5));
        files.filter(|name| name.contains(".so")).map(str::to_owned).collect::<BTreeSet<_>>()
    };
    let Ok(context) = HeadlessContext::new(&HeadlessOptions::default()) else { return };
    let loaded = libraries();
    drop(context);
    assert_eq!(libraries(), loaded);
}

#[test]
fn a_failed_start_is_no_use_of_the_drivers() {
    if !in_own_process("a_failed_start_is_no_use_of_the_drivers") {
        return;
    }
    // The loader's old and new names of the list of drivers.
    for variable in ["VK_ICD_FILENAMES", "VK_DRIVER_FILES"] {
        // SAFETY: no other thread of this process reads or changes the environment.
        unsafe { std::env::set_var(variable, "/nonexistent") };
    }
    let start = || HeadlessContext::new(&HeadlessOptions::default()).map(drop).expect_err("no driver").kind();
    assert_eq!(start(), ErrorKind::DriverNotFound);
    // SAFETY: the child only starts Vulkan without a driver, and exits.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = start() == ErrorKind::DriverNotFound;
        // SAFETY: ends the child without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!right)) };
    }
    let mut status = 0;
    // SAFETY: waits for the child just created.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!((libc::WIFEXITED(status), libc::WEXITSTATUS(status)), (true, 0), "the child found a driver's error");
}
