//! The exercise: the whole public API, once. Sections are independent, and each ends at its first error, so one fault
//! is one error, and later sections run normally.

mod bench;
mod broken;
mod copies;
mod exportable;
mod gate;
mod graphs;
mod images;
mod imports;
mod kernels;
mod order;
mod pending;
mod record;
mod semaphores;
mod timelines;

use std::collections::BTreeMap;

use gpu_interop::{Device, Feature, MemoryHandleKind, Result, SemaphoreHandleKind};

pub(crate) use record::{Record, Returned};

use self::bench::{Bench, Section};

use crate::driver::Driver;
use crate::sabotage::Sabotage;
use crate::simulator::Simulator;

const SECTIONS: &[(&str, Section)] = &[
    ("imports", imports::imports),
    ("mappings", imports::mappings),
    ("copies", copies::copies),
    ("words", copies::words),
    ("streams and events", order::streams_and_events),
    ("host functions", order::host_functions),
    ("lent streams", order::lent_streams),
    ("kernels", kernels::kernels),
    ("exportable memory", exportable::exportable),
    ("images", images::images),
    ("surfaces and textures", images::surfaces_and_textures),
    ("semaphores", semaphores::semaphores),
    ("graphs", graphs::graphs),
    ("semaphores in graphs", graphs::semaphores),
    ("timelines", timelines::native),
    ("timelines over a bridge", timelines::bridge),
    ("pending work", pending::pending),
    ("a read behind pending work", pending::read),
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
    let one_more = sabotage.and_then(broken::section).map(|section| ("one more", section));
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
