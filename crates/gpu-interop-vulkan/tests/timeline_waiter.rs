//! Waits for several timelines at once, of every sort that there is.

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

/// A timeline at 0, and what raises it.
type Pair = (Arc<dyn ExporterTimeline>, Arc<dyn ExporterTimeline>);

fn owned(context: &Checked) -> Pair {
    let timeline = Arc::new(OwnedSemaphore::timeline(context.interop(), 0).expect("a timeline"));
    (timeline.clone(), timeline)
}

/// One that can be exported, and an import of another one's; `None` where the device has none.
fn shared(context: &Checked) -> Option<[Pair; 2]> {
    let new = || ExportableSemaphore::timeline(context.interop(), 0);
    let exportable = match new() {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            println!("left out, exportable and imported timelines: {error}");
            return None;
        }
        exportable => Arc::new(exportable.expect("a timeline")),
    };
    let exporter = Arc::new(new().expect("a timeline"));
    let request = exporter.import_request().expect("a descriptor");
    let imported = Arc::new(ImportedSemaphore::new(context.interop(), request).expect("imports"));
    Some([(exportable.clone(), exportable), (imported, exporter)])
}

/// Whichever of them is raised ends the wait, and nothing before.
#[test]
fn one_wait_serves_every_sort_of_timeline() {
    let Some(context) = vulkan() else { return };
    let mut all = vec![owned(&context), owned(&context)];
    all.extend(shared(&context).into_iter().flatten());
    for (made_for, _) in &all {
        let waiter = made_for.waiter().expect("a waiter");
        assert!(all.iter().all(|(timeline, _)| waiter.serves(&**timeline)), "{made_for:?}");
    }
    let waiter = all[0].0.waiter().expect("a waiter");
    let mut waits: Vec<(&dyn ExporterTimeline, u64)> = all.iter().map(|(timeline, _)| (&**timeline, 1)).collect();
    for (index, (timeline, raised)) in all.iter().enumerate() {
        let start = Instant::now();
        waiter.wait_any(&waits, SHORT).expect("waits");
        assert!(start.elapsed() >= SHORT, "{timeline:?}: nothing was raised");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(SHORT);
                raised.signal(1).expect("signals");
            });
            waiter.wait_any(&waits, LONG).expect("waits");
        });
        assert!(start.elapsed() < LONG, "{timeline:?}: raising it ended no wait");
        assert_eq!(timeline.value().expect("value"), 1);
        waits[index].1 = 2;
    }
}

#[test]
fn an_interruption_ends_this_wait_or_the_next_and_no_other() {
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
    assert!(start.elapsed() < LONG, "nothing was interrupted");
    let start = Instant::now();
    waiter.wait_any(&waits, SHORT).expect("waits");
    assert!(start.elapsed() >= SHORT, "an interruption came twice");
}

#[test]
fn what_is_no_timeline_of_the_device_is_refused() {
    let (Some(context), Some(other)) = (vulkan(), vulkan()) else { return };
    let (timeline, foreign) = (owned(&context).0, owned(&other).0);
    let binary = OwnedSemaphore::binary(context.interop()).expect("a semaphore");
    let waiter = timeline.waiter().expect("a waiter");
    assert!(waiter.serves(&*timeline) && !waiter.serves(&*foreign));
    for wrong in [&*foreign, &binary] {
        let error = waiter.wait_any(&[(&*timeline, 1), (wrong, 1)], LONG).expect_err("it is none");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
}
