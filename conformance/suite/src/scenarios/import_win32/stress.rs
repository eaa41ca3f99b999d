//! Handle reuse: imports on several threads, while other threads open and close handles.
//!
//! A stray or second close hits a recycled handle of another thread.

use std::os::windows::io::{AsRawHandle, OwnedHandle};
use std::sync::atomic::Ordering;

use gpu_interop::ErrorKind;

use super::super::expect_kind;
use super::super::handle_reuse::{Counts, Stranger, among};
use super::super::import_request::somewhere_else;
use super::{Kept, came_back, handle_of};
use crate::context::Context;
use crate::leak_check::ResourceSnapshot;
use crate::outcome::{Stop, Verdict};
use crate::scenario::scenarios;
use crate::system::objects;
use crate::{ensure, ensure_eq};

scenarios! {
    "import.win32_stress", Any,
        "Thousands of failing and succeeding imports on several threads close no handle of another thread and leak none.",
        stress;
}

const IMPORTERS: usize = 3;

fn stress(context: &Context) -> Verdict {
    // One object shared by all threads, and one per thread.
    let shared = Kept::new(context)?;
    let own = (0..IMPORTERS).map(|_| Kept::new(context)).collect::<Verdict<Vec<_>>>()?;
    let counts = Counts::default();
    // Resources of the first cycle may stay open.
    own.iter().chain([&shared]).try_for_each(|kept| cycle(context, kept, &counts))?;
    let before = ResourceSnapshot::take()?;
    let of = |own| {
        let (counts, shared) = (&counts, &shared);
        move || {
            cycle(context, own, counts)?;
            cycle(context, shared, counts)
        }
    };
    let imports: Vec<_> = own.iter().map(of).collect();
    among(&[&Section::open, &Section::open], &imports, &counts, 200)?;
    own.iter().chain([&shared]).try_for_each(|kept| kept.check("after the imports"))?;
    ensure_eq!(ResourceSnapshot::settled_descriptors(&before)?, before.descriptors, "open handles after the imports");
    Ok(())
}

/// An import that succeeds and two that fail.
fn cycle(context: &Context, kept: &Kept, counts: &Counts) -> Verdict {
    let device = context.device();
    drop(device.import_memory(kept.request()?)?);
    counts.imported.fetch_add(1, Ordering::Relaxed);
    let handle = duplicate(&kept.own)?;
    let number = handle.as_raw_handle();
    let foreign = kept.request_with(handle, kept.size)?.exported_by(somewhere_else());
    let failure = device.import_memory(foreign).err().ok_or_else(accepted)?;
    let (error, request) = failure.into_parts();
    expect_kind(&error, &[ErrorKind::DeviceMismatch], "another device's memory")?;
    let handle = came_back(handle_of(request.into_handle().into_win32())?, number, &kept.witness, "another device's")?;
    // Any object for a GPU's driver; for the host backend an object that is not memory.
    drop(handle);
    let event = objects::event()?;
    let (number, witness) = (event.as_raw_handle(), duplicate(&event)?);
    let failure = device.import_memory(kept.request_with(event, kept.size)?).err().ok_or_else(accepted)?;
    let (error, request) = failure.into_parts();
    expect_kind(&error, &[ErrorKind::ImportRejected, ErrorKind::InvalidArgument], "an event")?;
    came_back(handle_of(request.into_handle().into_win32())?, number, &witness, "an event")?;
    counts.refused.fetch_add(2, Ordering::Relaxed);
    Ok(())
}

/// A duplicate of a handle, which fails if the handle was closed elsewhere.
fn duplicate(handle: &OwnedHandle) -> Verdict<OwnedHandle> {
    let number = handle.as_raw_handle();
    handle
        .try_clone()
        .map_err(|error| Stop::failed(format!("the caller's handle {number:?} was closed elsewhere: {error}")))
}

fn accepted() -> Stop {
    Stop::failed("an import that must fail was accepted".into())
}

/// A section, and its content until it is closed here.
struct Section {
    section: OwnedHandle,
    mark: u64,
}

impl Section {
    fn open(mark: u64) -> Verdict<Self> {
        let section = objects::section(None, 4096)?;
        let number = section.as_raw_handle();
        objects::write_section(&section, &mark.to_ne_bytes()).map_err(|error| {
            Stop::failed(format!("the new handle {number:?} of another thread was closed elsewhere: {error}"))
        })?;
        Ok(Self { section, mark })
    }
}

impl Stranger for Section {
    fn check(&self) -> Verdict {
        let number = self.section.as_raw_handle();
        ensure!(objects::is_open(number), "the handle {number:?} of another thread was closed elsewhere");
        let mut mark = [0; 8];
        let read = objects::read_section(number, &mut mark);
        ensure!(
            read.is_ok() && u64::from_ne_bytes(mark) == self.mark,
            "the handle {number:?} of another thread was closed elsewhere, and is another object now"
        );
        Ok(())
    }
}
