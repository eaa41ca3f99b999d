//! The exercise: the whole public API, once. Each section is independent of the others and ends at its first error, so
//! that one fault is one error, and every section after it is run as always.

mod bench;
mod copies;
mod exportable;
mod gate;
mod graphs;
mod images;
mod imports;
mod kernels;
mod order;
mod pending;
mod semaphores;
mod timelines;

use std::collections::BTreeMap;

use gpu_interop::{
    Device, Error, Feature, MemoryHandleKind, MemoryImport, Result, SemaphoreHandleKind, SemaphoreImport,
};

pub(crate) use bench::Bench;

use crate::control::{Control, Live};
use crate::driver::Driver;
use crate::sabotage::Sabotage;

/// What an exercise showed.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// Every error, and the section that it ended.
    pub(crate) errors: Vec<(&'static str, Error)>,
    /// What the backend says of itself and its device.
    pub(crate) facts: BTreeMap<String, String>,
    /// Promises that were not kept.
    pub(crate) wrong: Vec<String>,
    /// Whether another context or device is current on the thread than before.
    pub(crate) moved: bool,
    /// What `close` said it could not free.
    pub(crate) kept: Live,
    /// Requests that came back from imports that failed.
    pub(crate) returned: Vec<Returned>,
}

/// A request that came back.
#[derive(Debug)]
pub(crate) enum Returned {
    Memory(MemoryImport),
    Semaphore(SemaphoreImport),
}

/// A section.
pub(crate) type Section = fn(&Bench<'_>) -> Result<()>;

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

/// Runs the exercise, or, for a negative control, one that is broken.
pub(crate) fn run(driver: &Driver, control: &Control, sabotage: Option<Sabotage>) -> Record {
    let mut record = Record::default();
    let current = control.current();
    if let Err(error) = load(driver, control, sabotage, &mut record) {
        record.errors.push(("load", error));
    }
    record.moved = control.current() != current;
    record
}

fn load(driver: &Driver, control: &Control, sabotage: Option<Sabotage>, record: &mut Record) -> Result<()> {
    let backend = driver.vendor.load()?;
    record.facts.insert("driver".into(), backend.info().driver.clone());
    if !backend.info().simulated {
        record.wrong.push("the backend does not say that its driver is a simulator".into());
    }
    let devices = backend.devices()?;
    record.facts.insert("devices".into(), format!("{devices:?}"));
    let device = Device::open(&*backend, driver.ordinal)?;
    describe(&device, &mut record.facts);
    let bench = Bench::new(driver, &device, control, sabotage);
    let one_more = sabotage.and_then(Sabotage::section).map(|section| ("one more", section));
    let sections = SECTIONS.iter().copied().chain(one_more);
    for (name, section) in sections {
        if let Err(error) = section(&bench) {
            bench.note(name, error);
        }
        bench.end(name);
        // Work that a section which ended early has left.
        control.settle();
        device.collect();
    }
    // The device by what it is, while it is open already.
    match Device::open_matching(&*backend, device.identity()) {
        Ok(same) => bench.fact("the same device", format!("{} {:?}", same.identity(), same.architecture())),
        Err(error) => bench.note("open_matching", error),
    }
    bench.into_record(record);
    Ok(())
}

/// Writes down what the device says that it is and can do.
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

impl Returned {
    /// Imports the same once more.
    pub(crate) fn import(self, device: &Device) -> Result<()> {
        match self {
            Self::Memory(request) => device.import_memory(request)?.close(),
            Self::Semaphore(request) => device.import_semaphore(request)?.close(),
        }
    }
}
