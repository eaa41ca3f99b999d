//! Imports by object names.

use gpu_interop::handle::{ObjectName, Win32Object};
use gpu_interop::{Device, ErrorKind, ExternalMemory, Feature, MemoryHandle, MemoryImport, SemaphoreHandle};

use super::super::rejected;
use crate::context::Context;
use crate::outcome::{Stop, Verdict};
use crate::pattern::compare;
use crate::scenario::scenarios;
use crate::system::objects;
use crate::{ensure, ensure_eq, request};

scenarios! {
    all need [memory OpaqueWin32];
    "import.win32_name_unknown", None, "An unknown name is a typed error that contains it, and the request comes back.",
        unknown;
    "import.win32_name_of_event", None,
        "The name of another object is a typed error that contains it, and the request comes back.", of_an_event;
    "import.win32_names", None,
        "Shared memory imports by names with blanks, any alphabet and unpaired surrogates, with the right data.",
        every_kind, needs [NamedMemory];
    "import.win32_name_ends", None,
        "An import by name keeps the object alive; the name of a closed object is a typed error, and the object is gone.",
        ends, needs [NamedMemory];
}

const SIZE: u32 = 0x1_0000;
const REFUSED: [ErrorKind; 3] = [ErrorKind::ImportRejected, ErrorKind::InvalidArgument, ErrorKind::Unsupported];

/// Message with which a device rejects the name of memory that it cannot import; a device without support for names
/// reports that instead.
fn kinds(device: &Device) -> &'static [ErrorKind] {
    let takes_names = device.capabilities().feature(Feature::NamedMemory).is_supported();
    if takes_names { &REFUSED } else { &[ErrorKind::Unsupported, ErrorKind::DriverTooOld] }
}

fn name(text: &str) -> Verdict<ObjectName> {
    // Other processes of this suite may run.
    Ok(ObjectName::new(&format!("Local\\gpu-interop {} {text}", std::process::id()))?)
}

fn request(name: &ObjectName) -> MemoryImport {
    request::memory(MemoryHandle::OpaqueWin32(name.clone().into()), SIZE.into())
}

/// Imports the object of this name as memory and as a semaphore; both must be rejected.
fn refuse(context: &Context, name: &ObjectName, what: &str) -> Verdict {
    let (device, text) = (context.device(), format!("{name:?}"));
    let (error, request) = rejected(device.import_memory(request(name)), kinds(device), what)?;
    ensure!(error.to_string().contains(&text), "the text lacks the name {text}: {error}");
    ensure_eq!(request.handle().as_win32().and_then(Win32Object::name), Some(name), "the name that came back");
    for make in [SemaphoreHandle::OpaqueWin32, SemaphoreHandle::TimelineWin32] {
        let handle = make(name.clone().into());
        if !device.capabilities().semaphore(handle.kind()).is_supported() {
            continue;
        }
        let (error, request) = rejected(device.import_semaphore(request::semaphore(handle)), &REFUSED, what)?;
        ensure!(error.to_string().contains(&text), "the text lacks the name {text}: {error}");
        ensure_eq!(request.handle().as_win32().and_then(Win32Object::name), Some(name), "the name that came back");
    }
    Ok(())
}

fn unknown(context: &Context) -> Verdict {
    let long = "long ".repeat(8000);
    for text in ["no such object", "kein solches Objekt: ÄÖÜ", "🦀", "\u{202e}", " ", &long] {
        refuse(context, &name(text)?, "a name that nothing has")?;
    }
    for text in
        ["gpu-interop-no-such-object", "Global\\gpu-interop-no-such-object", "Local\\", "\\", "a\\b\\c", "\u{1}"]
    {
        refuse(context, &ObjectName::new(text)?, "a name that nothing has")?;
    }
    Ok(())
}

fn of_an_event(context: &Context) -> Verdict {
    let name = name("event")?;
    let event = objects::named_event(&name)?;
    refuse(context, &name, "an event's name")?;
    drop(event);
    refuse(context, &name, "the name of an event that is closed")
}

/// The import of named shared memory of the system. A GPU's driver opens only what a graphics API named.
fn import(context: &Context, name: &ObjectName) -> Verdict<ExternalMemory> {
    match context.device().import_memory(request(name)) {
        Err(failure) if REFUSED.contains(&failure.kind()) && !context.has_system_objects() => {
            Err(Stop::unsupported(format!("the device imports no sections of the system: {failure}")))
        }
        imported => Ok(imported?),
    }
}

fn every_kind(context: &Context) -> Verdict {
    let stream = context.stream()?;
    let pattern = context.pattern().bytes(0, usize::try_from(SIZE)?);
    let mut names = Vec::new();
    for text in
        ["plain", "blanks  ", "Grüße", "шар", "名前", "🦀🦀", "\u{202e}\u{200b}", "a\"b'c%d?*:/<>|", &"x".repeat(200)]
    {
        names.push(name(text)?);
    }
    // Names are UTF-16 code units; these are unpaired surrogates.
    let mut half: Vec<u16> = name("half")?.as_utf16().iter().copied().filter(|unit| *unit != 0).collect();
    half.extend([0xd83e, u16::from(b'x'), 0xdd80]);
    names.push(ObjectName::from_utf16(&half)?);
    // All exist at the same time: each import must find its own.
    let mut sections = Vec::new();
    for (name, number) in names.iter().zip(1_u8..) {
        let section = objects::section(Some(name), SIZE)?;
        let bytes: Vec<u8> = pattern.iter().map(|byte| byte.wrapping_mul(3).wrapping_add(number)).collect();
        objects::write_section(&section, &bytes)?;
        sections.push((section, bytes));
    }
    for (name, (section, bytes)) in names.iter().zip(&sections) {
        let memory = import(context, name)?;
        let mapped = memory.map_buffer(..)?;
        compare(&context.read(&stream, &mapped)?, bytes, format_args!("{name:?}: the section's data"))?;
        let other: Vec<u8> = bytes.iter().rev().copied().collect();
        stream.write(&mapped, &other)?;
        let mut found = vec![0; other.len()];
        objects::read_section(std::os::windows::io::AsRawHandle::as_raw_handle(section), &mut found)?;
        compare(&found, &other, format_args!("{name:?}: the written data in the section"))?;
        mapped.close()?;
        memory.close()?;
    }
    Ok(())
}

fn ends(context: &Context) -> Verdict {
    let stream = context.stream()?;
    for round in 0..50 {
        let name = name(&format!("ends {round}"))?;
        let section = objects::section(Some(&name), SIZE)?;
        objects::write_section(&section, &context.pattern().bytes(0, 4096))?;
        let memory = import(context, &name)?;
        drop(section);
        ensure!(objects::section_exists(&name), "round {round}: the import does not keep the object");
        let again = import(context, &name)?;
        let mapped = again.map_buffer(0..4096)?;
        memory.close()?;
        context.pattern().verify(0, &context.read(&stream, &mapped)?, "data whose exporter is gone")?;
        again.close()?;
        ensure!(objects::section_exists(&name), "round {round}: the mapping does not keep the object");
        mapped.close()?;
        ensure!(!objects::section_exists(&name), "round {round}: something still refers to the object");
        refuse(context, &name, "a name whose object is closed")?;
    }
    Ok(())
}
