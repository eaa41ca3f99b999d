//! Several devices: memory of one in a process that works on another, and work on all at once.

use std::sync::Barrier;

use gpu_interop::{Device, DeviceIdentity, ErrorKind, Feature, IdentityMatch};

use super::identity::{import, open_second};
use super::rejected_before_driver;
use crate::context::Context;
use crate::outcome::{Stop, Verdict, WAIT_TIMEOUT, join};
use crate::pattern::Pattern;
use crate::peer::Channel;
use crate::scenario::{Role, scenarios};
use crate::system::{self, Received};
use crate::{ensure, ensure_eq, request};

scenarios! {
    "identity.second_device_process", Any,
        "Another process, on a second device, rejects memory of the first before the driver is called, with both identities, \
         and sends the handle back, which imports on the first.",
        second_device_process, needs [second device];
    "identity.devices_at_once", None,
        "On every device at once, a thread allocates, imports, writes, copies, and frees with work pending, while the others do: \
         each finds its own data.",
        devices_at_once, needs [second device, ExportableMemory];
}

pub(super) const ROLES: &[(&str, Role)] = &[("refuse-memory", refuse_memory)];

const SIZE: usize = 64 << 10;
/// Maximum length of a serialised identity, bytes.
const IDENTITY: usize = 4096;

fn second_device_process(context: &Context) -> Verdict {
    // The process that imports opens the first device only to have it as its context's.
    open_second(context)?;
    let (buffer, pattern) = (context.written(SIZE)?, context.pattern());
    let request = buffer.import_request()?;
    let handle = system::of_memory(request.handle());
    let handle = handle.ok_or_else(|| Stop::unsupported("the memory cannot be sent to another process".into()))?;
    let peer = context.spawn_peer("refuse-memory")?;
    peer.channel().connection().send(&serde_json::to_vec(context.exporter()?.identity())?, &[])?;
    peer.channel().send("memory", request.size(), &[handle])?;
    let (size, handle) = peer.channel().receive_handle("refused")?;
    ensure_eq!(size, request.size(), "the size of the memory that came back");
    let returned = context.exporter()?.sent_memory(handle, size);
    let mapped = context.device().import_memory(returned)?.map_buffer(0..SIZE as u64)?;
    pattern.verify(0, &context.read(&context.stream()?, &mapped)?, "data through the handle that came back")?;
    buffer.verify(pattern, "the exporter's data after the rejection")?;
    peer.join()
}

fn refuse_memory(context: &Context, channel: &Channel) -> Verdict {
    let second = open_second(context)?;
    ensure!(channel.connection().wait(WAIT_TIMEOUT)?, "the exporter's identity did not come in time");
    let Received::Message(identity, _) = channel.connection().receive(IDENTITY)? else {
        return Err(Stop::failed("the other process ended before it sent the exporter's identity".into()));
    };
    let exporter: DeviceIdentity = serde_json::from_slice(&identity)?;
    let (size, handle) = channel.receive_handle("memory")?;
    let sent = request::memory(system::memory(handle), size).exported_by(exporter.clone());
    let (error, sent) =
        rejected_before_driver(second.import_memory(sent), &[ErrorKind::DeviceMismatch], "another device's memory")?;
    let both = error.mismatch().ok_or_else(|| Stop::failed(format!("the error has no identities: {error}")))?;
    ensure_eq!((&both.exporter, &both.importer), (&exporter, second.identity()), "the identities of the error");
    for name in [&exporter, second.identity()].map(ToString::to_string) {
        ensure!(error.to_string().contains(&name), "the text does not name {name}: {error}");
    }
    let handle = system::of_memory(sent.handle());
    let handle = handle.ok_or_else(|| Stop::failed("another handle came back".into()))?;
    channel.send("refused", sent.size(), &[handle])
}

/// Devices of the backend that differ from each other, the device under test first.
fn all_devices(context: &Context) -> Verdict<Vec<Device>> {
    let mut devices = vec![context.open_again()?];
    for (ordinal, identity) in context.backend().devices()?.iter().enumerate() {
        if devices.iter().all(|known| known.identity().compare(identity) == IdentityMatch::Different) {
            devices.push(Device::open(context.backend(), ordinal)?);
        }
    }
    let reason = |device: &Device| {
        let support = device.capabilities().feature(Feature::ExportableMemory);
        support.reason().map(str::to_owned)
    };
    match devices.iter().find_map(reason) {
        Some(reason) => Err(Stop::unsupported(format!("exportable memory of every device: {reason}"))),
        None if devices.len() < 2 => Err(Stop::unsupported("needs two devices that differ".into())),
        None => Ok(devices),
    }
}

fn devices_at_once(context: &Context) -> Verdict {
    const ROUNDS: u32 = 25;
    let devices = all_devices(context)?;
    let seed = context.pattern().seed();
    let together = Barrier::new(devices.len());
    let work = |number: u32, device: &Device| -> Verdict {
        let round = |stream: &gpu_interop::Stream, round: u32| -> Verdict {
            let pattern = Pattern::new(seed.wrapping_add(number * ROUNDS + round));
            let ((memory, source), (copy, target)) = (import(device)?, import(device)?);
            let (_other, dropped) = import(device)?;
            stream.write(&source, &pattern.bytes(0, SIZE))?;
            for byte in 0..50 {
                stream.fill(&dropped, byte)?;
            }
            stream.copy(&target, &source)?;
            // Freed with work pending, here and on the other devices.
            drop((dropped, source, target));
            let mut found = vec![0; SIZE];
            let what = format!("device {number}, round {round}");
            for (memory, which) in [(&memory, "source"), (&copy, "copy")] {
                stream.read(memory.slice(..SIZE as u64)?, &mut found)?;
                pattern.verify(0, &found, format_args!("{what}, the {which}"))?;
            }
            device.collect();
            Ok(())
        };
        let stream = device.create_stream();
        // Every thread waits for the others in each round, after a failure too.
        let mut verdict = Ok(());
        for number in 0..ROUNDS {
            together.wait();
            if verdict.is_ok() {
                verdict = match &stream {
                    Ok(stream) => round(stream, number),
                    Err(error) => Err(Stop::failed(error.to_string())),
                };
            }
        }
        verdict
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..).zip(&devices).map(|(number, device)| scope.spawn(move || work(number, device))).collect();
        threads.into_iter().map(join).collect::<Vec<_>>().into_iter().collect()
    })
}
