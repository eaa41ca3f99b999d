//! Which device is it, and what does it say it can do.

use gpu_interop::{
    Device, DeviceIdentity, DeviceKind, ErrorKind, Feature, IdentityMatch, MemoryHandleKind, PciAddress,
    SemaphoreHandleKind, Uuid,
};

use super::{expect_error, refused};
use crate::context::Context;
use crate::outcome::Verdict;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    "identity.stable", None, "The device's identity is the same at every look and in the backend's list.", stable;
    "identity.json", None, "Identity and capabilities survive a round trip through JSON.", json;
    "identity.no_such_device", None, "Opening a device that is not there is a typed error.", no_such_device;
    "identity.exporter_matches", Any, "The exporter's identity leads to the device under test.", exporter_matches;
    "identity.foreign_exporter_refused", Any,
        "Memory of another device is refused before the driver sees it, naming both devices, and the handle stays usable.",
        foreign_exporter_refused;
    "identity.unknown_exporter_accepted", Any, "An exporter without any identity is accepted.", unknown_exporter_accepted;
    "capability.stable", None, "Every capability gives the same answer at every look.", capability_stable;
    "capability.other_systems", None,
        "Handle kinds of another operating system are unsupported, with a reason.", other_systems;
}

fn stable(context: &Context) -> Verdict {
    let listed = context.backend().devices()?;
    ensure!(!listed.is_empty(), "the backend opened a device but lists none");
    ensure_eq!(&listed[0], context.device().identity(), "the listed and the opened device");
    for _ in 0..3 {
        ensure_eq!(context.backend().devices()?, listed, "the list of devices");
        ensure_eq!(context.open_again()?.identity(), &listed[0], "the device, opened again");
    }
    Ok(())
}

fn json(context: &Context) -> Verdict {
    let identity = context.device().identity();
    let text = serde_json::to_string(identity).map_err(|error| crate::Stop::Failed(error.to_string()))?;
    let back: DeviceIdentity = serde_json::from_str(&text).map_err(|error| crate::Stop::Failed(error.to_string()))?;
    ensure_eq!(&back, identity, "the identity after {text}");
    let capabilities = context.device().capabilities();
    let text = serde_json::to_string(capabilities).map_err(|error| crate::Stop::Failed(error.to_string()))?;
    let back: gpu_interop::Capabilities =
        serde_json::from_str(&text).map_err(|error| crate::Stop::Failed(error.to_string()))?;
    ensure_eq!(&back, capabilities, "the capabilities after {text}");
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

/// A device that is certainly not in this machine, whichever way the device under test is told from others.
pub(super) fn somewhere_else() -> DeviceIdentity {
    DeviceIdentity {
        name: "a card in another machine".into(),
        kind: DeviceKind::Gpu,
        uuid: Uuid::from_bytes(*b"not in this host"),
        luid: None,
        pci: Some(PciAddress { domain: 0xfffe, bus: 0xff, device: 0x1f, function: 7 }),
    }
}

fn foreign_exporter_refused(context: &Context) -> Verdict {
    let buffer = context.buffer(4096)?;
    let pattern = context.pattern();
    buffer.write(0, &pattern.bytes(0, 4096))?;
    let foreign = somewhere_else();
    ensure_eq!(context.device().identity().compare(&foreign), IdentityMatch::Different, "a device somewhere else");
    let request = buffer.import_request()?.exported_by(foreign.clone());
    let (error, request) =
        refused(context.device().import_memory(request), &[ErrorKind::DeviceMismatch], "memory of another device")?;
    ensure!(error.mismatch().is_some_and(|both| both.exporter == foreign), "the error lacks the exporter: {error}");
    let text = error.to_string();
    ensure!(text.contains(&foreign.name), "the text does not name the exporter: {text}");
    ensure!(text.contains(&context.device().identity().name), "the text does not name the importer: {text}");
    let request = request.exported_by(context.exporter()?.identity().clone());
    let mapped = context.device().import_memory(request)?.map_buffer(0, 4096)?;
    let stream = context.device().create_stream()?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "data through the handle that came back")
}

fn unknown_exporter_accepted(context: &Context) -> Verdict {
    let buffer = context.buffer(4096)?;
    let pattern = context.pattern();
    buffer.write(0, &pattern.bytes(0, 4096))?;
    let unknown = DeviceIdentity { name: "no identity".into(), ..DeviceIdentity::default() };
    let mapped = context.device().import_memory(buffer.import_request()?.exported_by(unknown))?.map_buffer(0, 4096)?;
    let stream = context.device().create_stream()?;
    pattern.verify(0, &context.read(&stream, &mapped)?, "data of an exporter without identity")
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
