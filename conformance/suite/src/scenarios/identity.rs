//! Identity and capabilities of the device.

use std::fmt::Debug;

use gpu_interop::{
    Device, DeviceIdentity, ErrorKind, Feature, IdentityMatch, MemoryHandleKind, MemoryImport, SemaphoreHandleKind,
    Uuid,
};

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::import_request::{SIZE, prepared, resized, somewhere_else, works};
use super::{expect_error, rejected};
use crate::outcome::join;
use crate::scenario::scenarios;
use crate::{Context, Stop, Verdict, ensure, ensure_eq};

scenarios! {
    "identity.stable", None, "The device's identity is the same at every query and in the backend's list.", stable;
    "identity.json", None, "Identity and capabilities survive a round trip through JSON.", json;
    "identity.no_such_device", None, "Opening an unknown device is a typed error.", no_such_device;
    "identity.exporter_matches", Any, "The exporter's identity leads to the device under test.", exporter_matches;
    "identity.foreign_exporter_refused", Any,
        "Memory of another device is rejected before the driver is called, with both identities; the handle stays usable.",
        foreign_exporter_refused;
    "identity.unknown_exporter_accepted", Any, "An exporter without an identity is accepted.", |context| {
        let unknown = DeviceIdentity::default().with_name("no identity");
        imported_from(context, unknown, "data of an exporter without identity")
    };
    "identity.zero_uuid", Any, "A UUID of zeros means that the exporter does not know its UUID, and is accepted.", zero_uuid;
    "identity.second_device", Any,
        "Each of two devices rejects the other's memory, with both identities; one thread works with both in turns, if the \
         second has exportable memory.",
        second_device, needs [second device];
    "capability.stable", None, "Every capability is the same at every query.", capability_stable,
        mirrors("ONNX Runtime: CanImportMemory, CanImportSemaphore; OpenCL-CTS: external_semaphores_queries");
    "capability.threads", None,
        "8 threads that open the device at once find the same identity and capabilities.", capability_threads;
    "capability.other_systems", None,
        "Handle kinds of another operating system are unsupported, with a reason.", other_systems;
}

fn stable(context: &Context) -> Verdict {
    let listed = context.backend().devices()?;
    let here = listed.get(context.ordinal());
    ensure_eq!(here, Some(context.device().identity()), "the listed and the opened device");
    for _ in 0..3 {
        ensure_eq!(context.backend().devices()?, listed, "the list of devices");
        ensure_eq!(Some(context.open_again()?.identity()), here, "the device, opened again");
    }
    Ok(())
}

fn json(context: &Context) -> Verdict {
    round_trip(context.device().identity(), "the identity")?;
    round_trip(context.device().capabilities(), "the capabilities")
}

fn round_trip<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, what: &str) -> Verdict {
    let failed = |error: serde_json::Error| Stop::failed(error.to_string());
    let text = serde_json::to_string(value).map_err(failed)?;
    let back: T = serde_json::from_str(&text).map_err(failed)?;
    ensure_eq!(&back, value, "{what} after {text}");
    Ok(())
}

fn no_such_device(context: &Context) -> Verdict {
    let count = context.backend().devices()?.len();
    expect_error(Device::open(context.backend(), count), ErrorKind::NoDevice, "a device past the last one")?;
    expect_error(Device::open(context.backend(), usize::MAX), ErrorKind::NoDevice, "a device with a wild number")?;
    expect_error(Device::open_matching(context.backend(), &somewhere_else()), ErrorKind::NoDevice, "a foreign device")?;
    Ok(())
}

fn exporter_matches(context: &Context) -> Verdict {
    let exporter = context.exporter()?.identity();
    ensure_eq!(context.device().identity().compare(exporter), IdentityMatch::Same, "device and exporter {exporter}");
    let found = Device::open_matching(context.backend(), exporter)?;
    ensure_eq!(found.identity(), context.device().identity(), "the device found by the exporter's identity");
    Ok(())
}

/// The request without its exporter.
fn anonymous(request: MemoryImport) -> MemoryImport {
    let size = request.size();
    resized(request, size)
}

fn foreign_exporter_refused(context: &Context) -> Verdict {
    let buffer = prepared(context)?;
    let foreign = somewhere_else();
    ensure_eq!(context.device().identity().compare(&foreign), IdentityMatch::Different, "a device in another machine");
    let request = buffer.import_request()?.exported_by(foreign.clone());
    let (error, request) =
        rejected(context.device().import_memory(request), &[ErrorKind::DeviceMismatch], "memory of another device")?;
    ensure!(error.mismatch().is_some_and(|both| both.exporter == foreign), "the error lacks the exporter: {error}");
    let text = error.to_string();
    ensure!(text.contains(&foreign.name), "the text does not name the exporter: {text}");
    ensure!(text.contains(&context.device().identity().name), "the text does not name the importer: {text}");
    works(context, anonymous(request).exported_by(context.exporter()?.identity().clone()))
}

/// Imports a buffer of the exporter under another identity, and verifies every byte.
fn imported_from(context: &Context, exporter: DeviceIdentity, what: &str) -> Verdict {
    let buffer = prepared(context)?;
    let request = anonymous(buffer.import_request()?).exported_by(exporter);
    let mapped = context.device().import_memory(request)?.map_buffer(0..SIZE)?;
    context.pattern().verify(0, &context.read(&context.stream()?, &mapped)?, what)
}

fn zero_uuid(context: &Context) -> Verdict {
    let without = context.exporter()?.identity().clone().with_uuid(Uuid::from_bytes([0; 16]));
    ensure!(without.uuid.is_none(), "16 zeros were taken for a UUID");
    let compared = context.device().identity().compare(&without);
    ensure!(compared != IdentityMatch::Different, "a UUID of zeros distinguishes two devices");
    imported_from(context, without, "data of an exporter that does not know its UUID")
}

/// A device that differs from the one under test.
pub(super) fn open_second(context: &Context) -> Verdict<Device> {
    let this = context.device().identity();
    let listed = context.backend().devices()?;
    let Some(ordinal) = listed.iter().position(|other| this.compare(other) == IdentityMatch::Different) else {
        let count = listed.len();
        return Err(Stop::unsupported(format!("needs two devices that differ; the backend lists {count}")));
    };
    let second = Device::open(context.backend(), ordinal)?;
    ensure_eq!(second.identity(), &listed[ordinal], "the second device");
    Ok(second)
}

fn second_device(context: &Context) -> Verdict {
    const SIZE: usize = 64 << 10;
    let second = open_second(context)?;
    let (buffer, pattern) = (context.written(SIZE)?, context.pattern());
    let request = buffer.import_request()?;
    let (error, request) = rejected(second.import_memory(request), &[ErrorKind::DeviceMismatch], "the first's memory")?;
    ensure!(error.code().is_none(), "the second device's driver was called: {error}");
    // The exporter may know the first by other numbers than its driver does.
    for name in [context.exporter()?.identity().to_string(), second.identity().to_string()] {
        ensure!(error.to_string().contains(&name), "the text does not name {name}: {error}");
    }
    let here = context.device().import_memory(request)?.map_buffer(0..SIZE as u64)?;
    let stream = context.stream()?;
    pattern.verify(0, &context.read(&stream, &here)?, "the first device's memory, imported after the rejection")?;

    // Drivers have one current device for each thread.
    if let Some(reason) = second.capabilities().feature(Feature::ExportableMemory).reason() {
        context.leave_out(format!("work on both devices in turns: {reason}"));
        return Ok(());
    }
    let memory = second.allocate_exportable(SIZE as u64)?;
    let first = context.device().import_memory(memory.import_request()?);
    rejected(first, &[ErrorKind::DeviceMismatch], "the second's memory")?;
    let there = second.import_memory(memory.import_request()?)?.map_buffer(0..SIZE as u64)?;
    let stream_there = second.create_stream()?;
    let (mut ours, mut theirs) = (pattern.other(), pattern.other().other());
    for turn in 0..4 {
        stream.write(&here, &ours.bytes(0, SIZE))?;
        stream_there.write(&there, &theirs.bytes(0, SIZE))?;
        ours.verify(0, &context.read(&stream, &here)?, &format!("turn {turn}, the first device"))?;
        theirs.verify(0, &context.read(&stream_there, &there)?, &format!("turn {turn}, the second device"))?;
        (ours, theirs) = (theirs.other(), ours.other());
    }
    Ok(())
}

fn capability_threads(context: &Context) -> Verdict {
    let (identity, capabilities) = (context.device().identity(), context.device().capabilities());
    let look = || -> Verdict {
        for _ in 0..5 {
            let again = context.open_again()?;
            ensure_eq!(again.identity(), identity, "the identity that a thread finds");
            ensure_eq!(again.capabilities(), capabilities, "the capabilities that a thread finds");
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|_| scope.spawn(look)).collect();
        threads.into_iter().try_for_each(join)
    })
}

fn capability_stable(context: &Context) -> Verdict {
    let again = context.open_again()?;
    let (first, second) = (context.device().capabilities(), again.capabilities());
    for kind in MemoryHandleKind::ALL {
        ensure_eq!(first.memory(*kind), second.memory(*kind), "memory import, {kind}");
    }
    for kind in SemaphoreHandleKind::ALL {
        ensure_eq!(first.semaphore(*kind), second.semaphore(*kind), "semaphore import, {kind}");
    }
    for feature in Feature::ALL {
        ensure_eq!(first.feature(*feature), second.feature(*feature), "{feature}");
        let reason = first.feature(*feature).reason().map(str::to_owned);
        ensure!(reason != Some(String::new()), "{feature} is unsupported without a reason");
    }
    Ok(())
}

fn other_systems(context: &Context) -> Verdict {
    let capabilities = context.device().capabilities();
    let mut checked = 0;
    for kind in MemoryHandleKind::ALL.iter().filter(|kind| !kind.platform().is_current()) {
        ensure!(capabilities.memory(*kind).reason().is_some_and(|reason| !reason.is_empty()), "memory import, {kind}");
        checked += 1;
    }
    for kind in SemaphoreHandleKind::ALL.iter().filter(|kind| !kind.platform().is_current()) {
        ensure!(capabilities.semaphore(*kind).reason().is_some_and(|reason| !reason.is_empty()), "semaphores, {kind}");
        checked += 1;
    }
    ensure!(checked > 0, "no kind of another system was checked");
    Ok(())
}
