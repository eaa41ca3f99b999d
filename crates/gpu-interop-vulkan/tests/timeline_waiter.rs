//! Waits for several timelines of every kind at once.

#![cfg(unix)]
#![allow(clippy::expect_used)]

mod common;

use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{Checked, vulkan};
use gpu_interop_core::{ErrorKind, ExporterTimeline};
use gpu_interop_vulkan::{ExportableSemaphore, ImportedSemaphore, OwnedSemaphore};

const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(30);

/// A timeline at 0, and the timeline that signals it.
type Pair = (Arc<dyn ExporterTimeline>, Arc<dyn ExporterTimeline>);

fn owned(context: &Checked) -> Pair {
    let timeline = Arc::new(OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline"));
    (timeline.clone(), timeline)
}

/// An exportable timeline and an imported one; `None` if the device has none.
fn shared(context: &Checked) -> Option<[Pair; 2]> {
    let new = || ExportableSemaphore::timeline(context.interop(), 0);
    let exportable = match new() {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            println!("skipped, exportable and imported timelines: {error}");
            return None;
        }
        exportable => Arc::new(exportable.expect("a timeline")),
    };
    let exporter = Arc::new(new().expect("a timeline"));
    let request = exporter.import_request().expect("a descriptor");
    let imported = Arc::new(ImportedSemaphore::new(context.interop(), request).expect("imports"));
    Some([(exportable.clone(), exportable), (imported, exporter)])
}

/// A signal of any timeline ends the wait, and nothing else does.
#[test]
fn one_wait_covers_every_kind_of_timeline() {
    let Some(context) = vulkan() else { return };
    let mut all = vec![owned(&context), owned(&context)];
    all.extend(shared(&context).into_iter().flatten());
    for (made_for, _) in &all {
        let waiter = made_for.waiter().expect("a waiter");
        assert!(all.iter().all(|(timeline, _)| waiter.serves(&**timeline)), "{made_for:?}");
    }
    let waiter = all[0].0.waiter().expect("a waiter");
    let mut waits: Vec<(&dyn ExporterTimeline, u64)> = all.iter().map(|(timeline, _)| (&**timeline, 1)).collect();
    for (index, (timeline, signaller)) in all.iter().enumerate() {
        let start = Instant::now();
        waiter.wait_any(&waits, SHORT).expect("waits");
        assert!(start.elapsed() >= SHORT, "{timeline:?}: the wait ended without a signal");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(SHORT);
                signaller.signal(1).expect("signals");
            });
            waiter.wait_any(&waits, LONG).expect("waits");
        });
        assert!(start.elapsed() < LONG, "{timeline:?}: the signal did not end the wait");
        assert_eq!(timeline.value().expect("value"), 1);
        waits[index].1 = 2;
    }
}

#[test]
fn interruptions_end_one_wait() {
    let Some(context) = vulkan() else { return };
    let timeline = owned(&context).0;
    let waiter = timeline.waiter().expect("a waiter");
    let waits: [(&dyn ExporterTimeline, u64); 1] = [(&*timeline, 1)];
    let start = Instant::now();
    waiter.interrupt();
    waiter.interrupt();
    waiter.wait_any(&waits, LONG).expect("waits");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(SHORT);
            waiter.interrupt();
        });
        waiter.wait_any(&waits, LONG).expect("waits");
    });
    assert!(start.elapsed() < LONG, "the interruptions ended no wait");
    let start = Instant::now();
    waiter.wait_any(&waits, SHORT).expect("waits");
    assert!(start.elapsed() >= SHORT, "an interruption ended two waits");
}

#[test]
fn foreign_and_binary_semaphores_are_rejected() {
    let (Some(context), Some(other)) = (vulkan(), vulkan()) else { return };
    let (timeline, foreign) = (owned(&context).0, owned(&other).0);
    let binary = OwnedSemaphore::binary(context.interop()).expect("a semaphore");
    let waiter = timeline.waiter().expect("a waiter");
    assert!(waiter.serves(&*timeline) && !waiter.serves(&*foreign));
    for wrong in [&*foreign, &binary] {
        let error = waiter.wait_any(&[(&*timeline, 1), (wrong, 1)], LONG).expect_err("not a timeline of this device");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
