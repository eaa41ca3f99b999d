//! Opening devices, and the context of their errors.

use std::sync::Arc;

use super::exported::semaphore_request;
use super::recorder::{Recorder, gpu};
use super::{SIZE, assert_error, assert_invalid, binary, mapped, opaque, open, open_on};
use crate::backend::{Backend, BackendDevice, BackendInfo, WaitCondition};
use crate::error::{Error, ErrorKind, Result};
use crate::identity::{DeviceIdentity, Uuid};
use crate::kernel::{LaunchConfig, ModuleImage};
use crate::object::Device;

/// A backend with these devices.
#[derive(Debug)]
struct Cards {
    info: BackendInfo,
    cards: Vec<DeviceIdentity>,
    broken: bool,
}

impl Cards {
    fn new(cards: impl IntoIterator<Item = DeviceIdentity>) -> Self {
        let info = BackendInfo { name: "cards".into(), driver: "1".into(), library: None, simulated: true };
        Self { info, cards: cards.into_iter().collect(), broken: false }
    }
}

impl Backend for Cards {
    fn info(&self) -> &BackendInfo {
        &self.info
    }

    fn devices(&self) -> Result<Vec<DeviceIdentity>> {
        if self.broken { Err(Error::new(ErrorKind::Driver, "drvCount", "broken")) } else { Ok(self.cards.clone()) }
    }

    fn open(&self, ordinal: usize) -> Result<Arc<dyn BackendDevice>> {
        match self.cards.get(ordinal) {
            Some(card) => Ok(Arc::new(Recorder::new(card.clone()))),
            None => Err(Error::new(ErrorKind::NoDevice, "drvOpen", "no such card").with_context("ordinal", ordinal)),
        }
    }
}

#[test]
fn the_ordinal_selects_the_device() {
    let backend = Cards::new([gpu(1), gpu(2)]);
    let device = Device::open(&backend, 1).expect("open");
    assert_eq!((device.identity(), device.backend()), (&gpu(2), &backend.info));
    assert_eq!(device.ordinal(), Some(1));
    assert_eq!(Device::open_matching(&backend, &gpu(2)).expect("open").ordinal(), Some(1));
    assert_eq!(open().1.ordinal(), None, "wrapped, not opened");
    let error = Device::open(&backend, 2).expect_err("only two");
    assert_eq!((error.kind(), error.backend()), (ErrorKind::NoDevice, Some("cards")));
}

/// The drop of one would cancel the work of both.
#[test]
fn a_backend_device_is_one_device() {
    let device = Device::open(&Cards::new([gpu(1)]), 0).expect("open");
    let (info, raw) = (device.backend().clone(), device.as_raw().clone());
    let second = Device::from_backend_device(info.clone(), raw.clone());
    assert_eq!(second.ordinal(), Some(0), "a clone of the first");
    let (stream, memory) =
        (second.create_stream().expect("stream"), device.import_memory(opaque(SIZE)).expect("import"));
    stream.fill(&memory.map_buffer(..).expect("map"), 1).expect("an object of both");
    drop((second, stream));
    device.create_stream().expect("open").synchronize().expect("nothing was cancelled");
    drop((device, memory));
    // No device is open any more.
    assert_eq!(Device::from_backend_device(info, raw).ordinal(), None);
}

#[test]
fn only_a_device_that_is_proven_the_same_matches() {
    let backend = Cards::new([DeviceIdentity::default(), gpu(1), gpu(2)]);
    assert_eq!(Device::open_matching(&backend, &gpu(2)).expect("open").identity(), &gpu(2));
    let unknown = DeviceIdentity { uuid: None, ..gpu(3) };
    for exporter in [gpu(3), unknown] {
        let error = Device::open_matching(&backend, &exporter).expect_err("not there");
        let text = error.to_string();
        assert_eq!((error.kind(), error.backend()), (ErrorKind::NoDevice, Some("cards")));
        for word in ["exporter: card 3", "present: card 1", "present: card 2", "unnamed device"] {
            assert!(text.contains(word), "{text}");
        }
    }
    let broken = Cards { broken: true, ..backend };
    let error = Device::open_matching(&broken, &gpu(1)).expect_err("broken");
    assert_eq!((error.kind(), error.operation(), error.backend()), (ErrorKind::Driver, "drvCount", Some("cards")));
}

#[test]
fn errors_of_the_driver_say_where_they_happened() {
    let (recorder, device) = open();
    type Work<'a> = (&'static str, &'a dyn Fn(&Device) -> Result<()>, &'static [&'static str]);
    const HANDLE: &str = if cfg!(unix) { "handle: opaque fd" } else { "handle: opaque Win32 handle" };
    const TIMELINE: &str =
        if cfg!(unix) { "handle: timeline semaphore fd" } else { "handle: timeline semaphore Win32 handle" };
    let table: [Work<'_>; 8] = [
        ("ImportMemory", &|d| d.import_memory(opaque(SIZE)).map(drop).map_err(Error::from), &["size: 65536", HANDLE]),
        (
            "ImportSemaphore",
            &|d| {
                d.import_semaphore(semaphore_request(super::exported::timeline("timeline")))
                    .map(drop)
                    .map_err(Error::from)
            },
            &[TIMELINE],
        ),
        ("CreateExportable", &|d| d.allocate_exportable(9000).map(drop), &["size: 9000"]),
        ("ExportAllocation", &|d| d.allocate_exportable(9000)?.export().map(drop), &[]),
        ("CreateStream", &|d| d.create_stream().map(drop), &[]),
        ("CreateEvent", &|d| d.create_event().map(drop), &[]),
        ("LoadModule", &|d| d.load_module(ModuleImage::Builtin).map(drop), &[]),
        ("ModuleKernel", &|d| d.load_module(ModuleImage::Ptx(c"x"))?.kernel(c"gone").map(drop), &["kernel: gone"]),
    ];
    for (call, work, words) in table {
        recorder.fail_next(call, ErrorKind::Driver);
        let error = work(&device).expect_err(call);
        assert_error(&error, ErrorKind::Driver, "drvInjectedFailure", words);
        let code = error.code().expect("the driver's code");
        assert_eq!((code.value, code.name.as_deref()), (-7, Some("DRV_INJECTED")));
        assert_eq!(error.device(), Some(gpu(1).to_string().as_str()));
        work(&device).expect("only one call fails");
        assert_eq!(recorder.live(), 0, "{call}: nothing is left after a failure");
    }
}

#[test]
fn a_clone_is_the_same_device() {
    let (recorder, device) = open();
    let clone = device.clone();
    let semaphore = binary(&clone);
    drop(clone);
    device.create_stream().expect("stream").signal(&[semaphore.signal()]).expect("signal");
    assert!(Arc::ptr_eq(device.as_raw(), &(recorder as Arc<dyn BackendDevice>)));
}

#[test]
fn a_uuid_of_zeros_matches_nothing() {
    let zero = DeviceIdentity { uuid: Uuid::from_bytes([0; 16]), ..gpu(1) };
    let error = Device::open_matching(&Cards::new([zero.clone()]), &zero).expect_err("unknown is not the same");
    assert_eq!(error.kind(), ErrorKind::NoDevice);
}

#[test]
fn objects_of_another_device_are_rejected_everywhere() {
    let (recorder, device) = open();
    let (other_recorder, other) = open_on(Recorder::new(gpu(2)));
    let (queue, own, foreign) = (device.create_stream().expect("stream"), mapped(&device), mapped(&other));
    let (event, semaphore) = (other.create_event().expect("event"), binary(&other));
    let exportable = other.allocate_exportable(64).expect("allocate");
    let kernel = other.load_module(ModuleImage::Builtin).expect("load").kernel(c"touch").expect("kernel");
    let (four, eight) = (foreign.slice(..4).expect("slice"), foreign.slice(..8).expect("slice"));
    let (mut host, condition) = ([0; 4], WaitCondition::Equal);
    let pointer = host.as_mut_ptr();
    other_recorder.forget_calls();

    let both = |kind| [kind, "another device", "card 1", "card 2"];
    let rejected = |operation: &str, kind, work: &dyn Fn() -> crate::Result<()>| {
        assert_invalid(&recorder, operation, &both(kind), work);
    };
    rejected("Stream::copy", "memory", &|| queue.copy(&own, &foreign));
    rejected("Stream::copy", "memory", &|| queue.copy(&foreign, &own));
    rejected("Stream::copy", "memory", &|| queue.copy(&foreign, &foreign));
    rejected("Stream::copy", "memory", &|| queue.copy(own.slice(..4096)?, &exportable));
    rejected("Stream::read", "memory", &|| queue.read(four, &mut [0; 4]));
    rejected("Stream::write", "memory", &|| queue.write(four, &[0; 4]));
    // SAFETY: nothing is copied.
    rejected("Stream::read_async", "memory", &|| unsafe { queue.read_async(four, pointer) });
    // SAFETY: nothing is copied.
    rejected("Stream::write_async", "memory", &|| unsafe { queue.write_async(four, pointer) });
    rejected("Stream::fill", "memory", &|| queue.fill(&foreign, 0));
    rejected("Stream::fill_u32", "memory", &|| queue.fill_u32(&exportable, 0));
    rejected("Stream::wait_value_u32", "memory", &|| queue.wait_value_u32(four, 0, condition));
    rejected("Stream::wait_value_u64", "memory", &|| queue.wait_value_u64(eight, 0, condition));
    rejected("Stream::write_value_u32", "memory", &|| queue.write_value_u32(four, 0));
    rejected("Stream::write_value_u64", "memory", &|| queue.write_value_u64(eight, 0));
    rejected("Stream::signal", "semaphore", &|| queue.signal(&[semaphore.signal()]));
    rejected("Stream::wait", "semaphore", &|| queue.wait(&[semaphore.wait()]));
    rejected("Stream::record", "event", &|| queue.record(&event));
    rejected("Stream::wait_event", "event", &|| queue.wait_event(&event));
    // SAFETY: nothing is launched.
    rejected("Stream::launch", "kernel", &|| unsafe { queue.launch(&kernel, &LaunchConfig::linear(1), &[]) });
    assert_eq!(other_recorder.calls(), [], "the other device is not called either");
}

/// The same hardware opened twice is two devices, whose raw values cannot be combined.
#[test]
fn objects_of_two_devices_on_the_same_hardware_cannot_be_combined() {
    let (recorder, device) = open();
    let (_other_recorder, other) = open_on(Recorder::new(gpu(1)));
    let (queue, foreign) = (device.create_stream().expect("stream"), mapped(&other));
    assert_invalid(&recorder, "Stream::fill", &["another device", "card 1"], || queue.fill(&foreign, 0));
    let clone = device.clone();
    queue.fill(&mapped(&clone), 0).expect("a clone is the same device");
}
