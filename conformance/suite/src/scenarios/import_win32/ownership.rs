//! Ownership of NT handles.

use std::os::windows::io::AsRawHandle;

use gpu_interop::{ErrorKind, MemoryImport};

use super::super::import_request::{resized, somewhere_else, works};
use super::super::rejected;
use super::{Kept, KeptSemaphore, SIZE, came_back, handle_of, object, semaphore_of};
use crate::context::Context;
use crate::leak_check::{ResourceSnapshot, leak_check};
use crate::need::Need;
use crate::outcome::{Stop, StopKind, Verdict};
use crate::pattern::verify_bytes;
use crate::scenario::scenarios;
use crate::system::objects::{event, is_open, is_same_object};
use crate::{ensure, request};

scenarios! {
    "import.win32_kept_handle", Any,
        "The caller's handle stays open and of the same object while duplicates are imported, mapped, rejected and closed; \
         it then imports with the right data.",
        kept;
    "import.win32_failure_keeps_handle", Any,
        "Every kind of failed import returns the same handle, open and of the same object; it then imports with the right \
         data.",
        failure;
    "import.win32_success_closes_once", Any,
        "A successful import closes the request's handle once: the number's next owner keeps it.", closes_once;
    "import.win32_many_imports", Any,
        "One object imports 64 times; writes through one import are visible through all others, and as many handles are \
         open at the end as before.",
        many;
    "import.win32_10000_cycles", Any,
        "10,000 imports of one object, each closed, leave handles, views and memory as before.", cycles, within(240);
    "import.win32_kept_semaphores", Any,
        "The caller keeps the handles of semaphores, and 1,000 imports of each supported kind leak nothing.", semaphores;
}

/// A request that fails.
struct Failure {
    what: &'static str,
    size: u64,
    /// True if the request names another device as the exporter.
    is_foreign: bool,
    kinds: &'static [ErrorKind],
    /// True if a driver may accept it, trusting the size.
    may_succeed: bool,
}

impl Failure {
    fn change(&self, request: MemoryImport) -> MemoryImport {
        let request = resized(request, self.size);
        if self.is_foreign { request.exported_by(somewhere_else()) } else { request }
    }
}

/// Every kind of failure. Only the last request reaches the driver.
fn failures(size: u64) -> [Failure; 4] {
    use ErrorKind as Kind;
    let invalid = &[Kind::InvalidArgument];
    let rejected = &[Kind::InvalidArgument, Kind::ImportRejected, Kind::OutOfMemory];
    [
        Failure { what: "a size of 0", size: 0, is_foreign: false, kinds: invalid, may_succeed: false },
        Failure {
            what: "another device's memory",
            size,
            is_foreign: true,
            kinds: &[Kind::DeviceMismatch],
            may_succeed: false,
        },
        Failure {
            what: "a size that nothing has",
            size: u64::MAX,
            is_foreign: false,
            kinds: invalid,
            may_succeed: false,
        },
        Failure { what: "2^56 bytes", size: 1 << 56, is_foreign: false, kinds: rejected, may_succeed: true },
    ]
}

fn kept(context: &Context) -> Verdict {
    let kept = Kept::new(context)?;
    let memory = context.device().import_memory(kept.request()?)?;
    kept.check("after an import")?;
    let mapped = memory.map_buffer(0..SIZE)?;
    kept.check("after a mapping")?;
    mapped.close()?;
    kept.check("after the mapping's end")?;
    memory.close()?;
    kept.check("after the import's end")?;
    for failure in failures(kept.size) {
        match context.device().import_memory(failure.change(kept.request()?)) {
            Ok(memory) if failure.may_succeed => memory.close()?,
            result => drop(rejected(result, failure.kinds, failure.what)?),
        }
        kept.check(&format!("after {} was tried", failure.what))?;
    }
    works(context, kept.request()?)?;
    kept.check("after the last import")
}

fn failure(context: &Context) -> Verdict {
    let kept = Kept::new(context)?;
    let handle = kept.own.try_clone()?;
    let number = handle.as_raw_handle();
    let mut request = kept.request_with(handle, kept.size)?;
    for failure in failures(kept.size) {
        let back = match context.device().import_memory(failure.change(request)) {
            Ok(memory) if failure.may_succeed => {
                memory.close()?;
                context.leave_out(format!("{}, which the driver accepts", failure.what));
                return works(context, kept.request()?);
            }
            result => rejected(result, failure.kinds, failure.what)?.1,
        };
        let handle = came_back(handle_of(back.into_handle().into_win32())?, number, &kept.witness, failure.what)?;
        request = kept.request_with(handle, kept.size)?;
    }
    works(context, request)
}

/// The system assigns the next handle the lowest free number, or one that was closed recently.
fn closes_once(context: &Context) -> Verdict {
    const ROUNDS: u32 = 200;
    const BYSTANDERS: usize = 16;
    let kept = Kept::new(context)?;
    let mut taken_over = 0;
    for round in 0..ROUNDS {
        let handle = kept.own.try_clone()?;
        let number = handle.as_raw_handle();
        let memory = context.device().import_memory(kept.request_with(handle, kept.size)?)?;
        ensure!(!is_same_object(number, &kept.witness), "round {round}: the request's handle is still open");
        let mut bystanders = Vec::new();
        while bystanders.len() < BYSTANDERS {
            let stranger = event()?;
            let is_it = stranger.as_raw_handle() == number;
            bystanders.push((stranger.try_clone()?, stranger));
            if is_it {
                taken_over += 1;
                break;
            }
        }
        let mapped = memory.map_buffer(0..SIZE)?;
        mapped.close()?;
        memory.close()?;
        for (witness, stranger) in bystanders {
            let number = stranger.as_raw_handle();
            if !is_same_object(number, &witness) {
                std::mem::forget((witness, stranger));
                return Err(Stop::failed(format!(
                    "round {round}: the handle {number:?} of another thread was closed elsewhere"
                )));
            }
        }
        kept.check("after the round")?;
    }
    if taken_over == 0 {
        context.leave_out("reuse of a closed handle's number: the system reused none");
    }
    Ok(())
}

fn many(context: &Context) -> Verdict {
    const COUNT: usize = 64;
    let kept = Kept::new(context)?;
    let (device, pattern) = (context.device(), context.pattern());
    let stream = device.create_stream()?;
    works(context, kept.request()?)?;
    let before = ResourceSnapshot::take()?;
    let mut mapped = Vec::new();
    for _ in 0..COUNT {
        mapped.push(device.import_memory(kept.request()?)?.map_buffer(0..SIZE)?);
    }
    kept.check("with 64 imports of it alive")?;
    let length = usize::try_from(SIZE)?;
    for index in 0..COUNT {
        pattern.verify(
            0,
            &context.read(&stream, &mapped[index % mapped.len()])?,
            "the pattern, through one of them",
        )?;
    }
    // Alternately from both ends inwards.
    while mapped.len() > 1 {
        let gone = if mapped.len() % 2 == 0 { mapped.pop() } else { Some(mapped.swap_remove(0)) };
        drop(gone);
        let (first, last) = (&mapped[0], &mapped[mapped.len() - 1]);
        let value = u8::try_from(mapped.len()).unwrap_or(0);
        stream.fill(first, value)?;
        verify_bytes(&context.read(&stream, last)?, value, "the data written through another import")?;
    }
    let mut found = vec![0; length];
    kept.buffer.read(0, &mut found)?;
    verify_bytes(&found, 1, "the exporter's view")?;
    drop((mapped, stream));
    let after = ResourceSnapshot::settled_descriptors(&before)?;
    ensure!(after <= before.descriptors, "{after} handles are open, {} were", before.descriptors);
    kept.check("after 64 imports")
}

fn cycles(context: &Context) -> Verdict {
    let kept = Kept::new(context)?;
    leak_check(10_000, |_| Ok(context.device().import_memory(kept.request()?)?.close()?))?;
    kept.check("after the cycles")?;
    works(context, kept.request()?)
}

fn semaphores(context: &Context) -> Verdict {
    let exporter = context.exporter()?;
    let made = [exporter.binary_semaphore(), exporter.timeline_semaphore(7)];
    let mut seen = 0;
    for exported in made {
        let exported = match exported {
            Err(Stop { kind: StopKind::Unsupported, reason, .. }) => {
                context.leave_out(reason);
                continue;
            }
            exported => exported?,
        };
        let handle = exported.export()?;
        if let Some(reason) = context.unmet(Need::Semaphore(handle.kind())) {
            context.leave_out(reason);
            continue;
        }
        let kept = KeptSemaphore::new(handle)?;
        let imported = context.device().import_semaphore(kept.request()?)?;
        kept.check("after an import")?;
        imported.close()?;
        kept.check("after the import's end")?;
        let handle = kept.own.try_clone()?;
        let number = handle.as_raw_handle();
        let foreign = request::semaphore(semaphore_of(kept.kind, object(handle))?).exported_by(somewhere_else());
        let foreign = context.device().import_semaphore(foreign);
        let (_, request) = rejected(foreign, &[ErrorKind::DeviceMismatch], "another device's semaphore")?;
        drop(came_back(handle_of(request.into_handle().into_win32())?, number, &kept.witness, "a rejected semaphore")?);
        ensure!(!is_open(number), "the handle that came back is open after its end");
        leak_check(1000, |_| Ok(context.device().import_semaphore(kept.request()?)?.close()?))?;
        kept.check("after 1,000 imports")?;
        seen += 1;
    }
    if seen == 0 {
        return Err(Stop::unsupported("the suite has no semaphores of this exporter".into()));
    }
    Ok(())
}
