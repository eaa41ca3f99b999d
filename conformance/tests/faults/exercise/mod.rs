//! The exercise: the whole public API, once. Sections are independent, and each ends at its first error, so one fault
//! is one error, and later sections run normally.

mod bench;
mod memory;
mod work;

use std::collections::BTreeMap;
use std::time::Duration;

use gpu_interop::{Device, Feature, MemoryHandleKind, Result, SemaphoreHandleKind};

use crate::exercise::bench::{Bench, Section};
pub(crate) use crate::exercise::bench::{Record, Returned};
use crate::sabotage::Sabotage;
use crate::simulator::{Driver, Simulator};

const SECTIONS: &[(&str, Section)] = &[
    ("imports", memory::imports),
    ("mappings", memory::mappings),
    ("copies", memory::copies),
    ("words", memory::words),
    ("streams and events", work::streams_and_events),
    ("host functions", work::host_functions),
    ("lent streams", work::lent_streams),
    ("kernels", work::kernels),
    ("exportable memory", memory::exportable),
    ("images", memory::images),
    ("surfaces and textures", memory::surfaces_and_textures),
    ("semaphores", work::semaphores),
    ("graphs", work::graphs),
    ("semaphores in graphs", work::graph_semaphores),
    ("timelines", work::native_timelines),
    ("timelines over a bridge", work::bridged_timelines),
    ("pending work", work::pending),
    ("a read behind pending work", work::read),
];

/// Runs the exercise, or a broken one for a negative control. `lasting`: a fault strikes more than one call.
pub(crate) fn run(driver: &Driver, simulator: &Simulator, sabotage: Option<Sabotage>, lasting: bool) -> Record {
    let mut record = Record::default();
    let current = simulator.current();
    if let Err(error) = load(driver, simulator, sabotage, lasting, &mut record) {
        record.errors.push(("load", error));
    }
    record.moved = simulator.current() != current;
    record
}

fn load(
    driver: &Driver,
    simulator: &Simulator,
    sabotage: Option<Sabotage>,
    lasting: bool,
    record: &mut Record,
) -> Result<()> {
    let backend = driver.vendor.load()?;
    record.facts.insert("driver".into(), backend.info().driver.clone());
    if !backend.info().simulated {
        record.wrong.push("the backend does not say that its driver is a simulator".into());
    }
    let devices = backend.devices()?;
    record.facts.insert("devices".into(), format!("{devices:?}"));
    let device = Device::open(&*backend, driver.ordinal)?;
    describe(&device, &mut record.facts);
    let bench = Bench::new(driver, &device, simulator, sabotage, lasting);
    let one_more = sabotage.and_then(broken_section).map(|section| ("one more", section));
    let sections = SECTIONS.iter().copied().chain(one_more);
    for (name, section) in sections {
        if let Err(error) = section(&bench) {
            bench.note(name, error);
        }
        bench.end(name);
        // Pending work of a section that ended early.
        simulator.settle();
        device.collect();
    }
    // The device by its identity, while it is open.
    match Device::open_matching(&*backend, device.identity()) {
        Ok(same) => bench.fact("the same device", format!("{} {:?}", same.identity(), same.architecture())),
        Err(error) => bench.note("open_matching", error),
    }
    bench.into_record(record);
    Ok(())
}

/// Records the properties of the device.
fn describe(device: &Device, facts: &mut BTreeMap<String, String>) {
    let mut fact = |name: String, value: String| facts.insert(name, value);
    fact("identity".into(), device.identity().to_string());
    fact("architecture".into(), format!("{:?}", device.architecture()));
    let capabilities = device.capabilities();
    for kind in MemoryHandleKind::ALL {
        fact(format!("memory: {kind}"), capabilities.memory(*kind).to_string());
    }
    for kind in SemaphoreHandleKind::ALL {
        fact(format!("semaphore: {kind}"), capabilities.semaphore(*kind).to_string());
    }
    for feature in Feature::ALL {
        fact(format!("feature: {feature}"), capabilities.feature(*feature).to_string());
    }
}

/// A section added to the exercise.
fn broken_section(sabotage: Sabotage) -> Option<Section> {
    match sabotage {
        Sabotage::Forget => Some(forget),
        Sabotage::Abort => Some(|_| std::process::abort()),
        Sabotage::Segfault => Some(segfault),
        Sabotage::LeaveCurrent => Some(|bench| {
            bench.leave_current();
            Ok(())
        }),
        Sabotage::Panic => Some(|_| panic!("on purpose")),
        Sabotage::Hang => Some(|_| {
            std::thread::sleep(Duration::from_secs(3600));
            Ok(())
        }),
        _ => None,
    }
}

fn forget(bench: &Bench<'_>) -> Result<()> {
    // The creation may fail.
    if let Ok(event) = bench.device.create_event() {
        std::mem::forget(event);
    }
    Ok(())
}

fn segfault(_: &Bench<'_>) -> Result<()> {
    use rustix::process::{Signal, getpid, kill_process};
    // The handler of Rust's runtime does not treat the first signal as an invalid pointer, and leaves the next to the
    // system.
    loop {
        kill_process(getpid(), Signal::SEGV).expect("a signal");
    }
}
