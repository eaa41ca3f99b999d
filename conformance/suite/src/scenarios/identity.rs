//! Identity and capabilities of the device.

use std::fmt::Debug;

use gpu_interop::{
    Device, DeviceIdentity, ErrorKind, ExportableMemory, Feature, IdentityMatch, MappedBuffer, MemoryHandleKind,
    MemoryImport, SemaphoreHandleKind, Stream, Uuid, WaitCondition,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::import_request::{SIZE, prepared, resized, somewhere_else, works};
use super::{expect_error, keeps_waiting, rejected};
use crate::context::Context;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT, WATCH, join};
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq, request};

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
    "identity.second_device_pending", None,
        "Mappings of two devices with pending work are dropped by other threads; all work completes, and nothing hangs.",
        pending, needs [second device, ExportableMemory, StreamMemoryOperations32];
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
        ours.verify(0, &context.read(&stream, &here)?, format_args!("turn {turn}, the first device"))?;
        theirs.verify(0, &context.read(&stream_there, &there)?, format_args!("turn {turn}, the second device"))?;
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
    for kind in MemoryHandleKind::ALL.iter().filter(|kind| !kind.handle_type().is_current()) {
        ensure!(capabilities.memory(*kind).reason().is_some_and(|reason| !reason.is_empty()), "memory import, {kind}");
    }
    for kind in SemaphoreHandleKind::ALL.iter().filter(|kind| !kind.handle_type().is_current()) {
        ensure!(capabilities.semaphore(*kind).reason().is_some_and(|reason| !reason.is_empty()), "semaphores, {kind}");
    }
    Ok(())
}

const BUFFER_SIZE: u64 = 64 << 10;

/// The objects of one device: its own memory, imported into itself.
struct Side {
    /// Read after the import has ended.
    memory: ExportableMemory,
    gate: MappedBuffer,
    stream: Stream,
    /// Opens the gate.
    opener: Stream,
    value: u8,
}

/// A device's own memory, imported and mapped.
pub(super) fn import(device: &Device) -> Verdict<(ExportableMemory, MappedBuffer)> {
    let memory = device.allocate_exportable(BUFFER_SIZE)?;
    let request = request::memory(memory.export()?, memory.size()).exported_by(device.identity().clone());
    let mapped = device.import_memory(request)?.map_buffer(0..BUFFER_SIZE)?;
    Ok((memory, mapped))
}

impl Side {
    /// With a fill pending on the first of the returned mappings.
    fn with_pending_work(device: &Device, value: u8) -> Verdict<(Self, [MappedBuffer; 2])> {
        let ((memory, busy), (_, idle), (_, gate)) = (import(device)?, import(device)?, import(device)?);
        let (stream, opener) = (device.create_stream()?, device.create_stream()?);
        for mapped in [&busy, &idle, &gate] {
            opener.fill(mapped, 0)?;
        }
        opener.synchronize_timeout(WAIT_TIMEOUT)?;
        stream.wait_value_u32(gate.slice(..4)?, 1, WaitCondition::Equal)?;
        stream.fill(&busy, value)?;
        Ok((Self { memory, gate, stream, opener, value }, [busy, idle]))
    }

    fn open(&self) -> Verdict {
        Ok(self.opener.write_value_u32(self.gate.slice(..4)?, 1)?)
    }

    fn verify(&self, what: &str) -> Verdict {
        self.stream.synchronize_timeout(WAIT_TIMEOUT)?;
        let mut found = vec![0; 64 << 10];
        self.opener.read(self.memory.slice(..BUFFER_SIZE)?, &mut found)?;
        let wrong = found.iter().position(|byte| *byte != self.value);
        ensure!(wrong.is_none(), "{what}: byte {wrong:?} of {BUFFER_SIZE} is not the pending fill's");
        Ok(())
    }
}

fn pending(context: &Context) -> Verdict {
    let first = context.device();
    let second = open_second(context)?;
    for device in [first, &second] {
        for feature in [Feature::ExportableMemory, Feature::StreamMemoryOperations32] {
            if let Some(reason) = device.capabilities().feature(feature).reason() {
                return Err(Stop::unsupported(format!("{feature}: {reason}")));
            }
        }
    }
    for round in 0..4_u8 {
        let (one, dropped) = Side::with_pending_work(first, 0x10 + round)?;
        let (other, also_dropped) = Side::with_pending_work(&second, 0x20 + round)?;
        let sides = if round % 2 == 0 { [&one, &other] } else { [&other, &one] };
        std::thread::scope(|scope| -> Verdict {
            // A driver that waits for its streams before it frees blocks only these two.
            scope.spawn(move || drop(dropped));
            scope.spawn(move || drop(also_dropped));
            // Opened even after a failure: the threads end only if the gates open.
            let what = format!("round {round}: a stream did not wait");
            let waited = sides.map(|side| keeps_waiting(&side.stream, WATCH / 2, &what));
            let opened = sides.map(Side::open);
            opened.into_iter().chain(waited).collect()
        })?;
        one.verify(&format!("round {round}, the first device"))?;
        other.verify(&format!("round {round}, the second device"))?;
    }
    Ok(())
}
