//! Imports of every kind, and mappings.

use std::os::fd::AsFd;
use std::ptr::NonNull;

use gpu_interop::handle::{NvSciBufObject, NvSciSyncObject};
use gpu_interop::{ErrorKind, MemoryHandle, Result, SemaphoreHandle};

use super::bench::{Bench, SIZE, file, memory_request, seen, semaphore_request};
use crate::simulator::Sort;

/// Imports of memory, and requests that are rejected before the driver is called.
pub(super) fn imports(bench: &Bench<'_>) -> Result<()> {
    let request = |handle| memory_request(handle, SIZE);
    let plain = bench.import(request(MemoryHandle::OpaqueFd(file())))?;
    // SAFETY: the simulator stores the flag, without further effect.
    let dedicated = unsafe { request(MemoryHandle::OpaqueFd(file())).dedicated(true) };
    let dedicated = bench.import(dedicated.exported_by(bench.device.identity().clone()))?;
    bench.check(plain.as_raw() != dedicated.as_raw(), "two imports are one");
    bench.closed(Sort::Imports, plain.close());
    drop(dedicated);

    // Not the address of an NvSci object, which is never dereferenced, because the kind is rejected.
    let object = NonNull::dangling();
    // SAFETY: as above.
    let nv_sci = unsafe { NvSciBufObject::from_raw(object) };
    // A memory file is not a dma-buf, whatever the request declares, and a directory is not memory.
    let folder = std::fs::File::open("/").expect("a folder");
    for handle in [
        MemoryHandle::DmaBufFd(file()),
        MemoryHandle::NvSciBuf(nv_sci),
        MemoryHandle::OpaqueFd(folder.as_fd().try_clone_to_owned().expect("a descriptor")),
    ] {
        refused(bench, bench.device.import_memory(request(handle)).map_err(Into::into));
    }
    // SAFETY: as for the other one.
    let nv_sci = unsafe { NvSciSyncObject::from_raw(object) };
    for handle in [SemaphoreHandle::NvSciSync(nv_sci), SemaphoreHandle::OpaqueFd(folder.into())] {
        refused(bench, bench.device.import_semaphore(semaphore_request(handle)).map_err(Into::into));
    }
    Ok(())
}

/// Checks a rejection without a driver call.
fn refused<T>(bench: &Bench<'_>, result: Result<T>) {
    match result {
        Err(error) if error.code().is_none() && error.operation().starts_with("Device::") => {
            let kinds = [ErrorKind::Unsupported, ErrorKind::InvalidArgument, ErrorKind::SymbolMissing];
            bench.check(kinds.contains(&error.kind()), &format!("not a refusal: {error}"));
        }
        Err(error) => bench.wrong(format!("not refused before the driver was called: {error}")),
        Ok(_) => bench.wrong("imported what is nothing of the sort"),
    }
}

/// Mappings of one import, which outlive it.
pub(super) fn mappings(bench: &Bench<'_>) -> Result<()> {
    let (memory, file) = bench.memory()?;
    let all = memory.map_buffer(..)?;
    let part = memory.map_buffer(1024..2048)?;
    bench.check(all.as_raw() != part.as_raw(), "two mappings are one");
    // Its mappings keep the import alive.
    bench.closed(Sort::Imports, memory.close());
    let stream = bench.device.create_stream()?;
    stream.fill(&part, 0x5a)?;
    stream.synchronize()?;
    let mut bytes = [0; 8];
    stream.read(all.slice(1020..1028)?, &mut bytes)?;
    bench.check(bytes == [0, 0, 0, 0, 0x5a, 0x5a, 0x5a, 0x5a], "the mappings do not show the same memory");
    bench.check(seen(&file, 1020) == bytes, "the exporter does not see what was written");
    bench.closed(Sort::Mappings, all.close());
    drop(part);
    bench.closed(Sort::Streams, stream.close());
    Ok(())
}
