//! Leak checks.

use std::time::Duration;

use gpu_interop::nvsci::{BufferAttributeList, MemSync, SyncOptions};

use super::Rig;
use crate::leak_check::leak_check;
use crate::scenario::scenarios;
use crate::{Context, Verdict};

scenarios! {
    all need [memory NvSciBuf, semaphore NvSciSync, NvSciSyncAttributes];
    "nvsci.10000_cycles", None,
        "10,000 cycles of attribute lists, reconciliation, buffer, duplicate, import, signal and wait leave descriptors, \
         mappings and memory as before.",
        ten_thousand_cycles, counts_resources, within(240);
}

fn ten_thousand_cycles(context: &Context) -> Verdict {
    let rig = Rig::open(context)?;
    let stream = context.stream()?;
    let mut cpu = rig.syncs.cpu_wait_context()?;
    leak_check(10_000, |number| {
        let (one, other) = (rig.list(&rig.shared(4096))?, rig.list(&rig.shared(4096))?);
        let buffer = BufferAttributeList::reconcile(&[&one, &other])?.allocate()?;
        let duplicate = buffer.read_only()?;
        let writable = context.device().import_memory(buffer.import_request())?.map_buffer(..)?;
        let readable = context.device().import_memory(duplicate.import_request())?.map_buffer(..)?;
        let object = rig.device_signals(context, SyncOptions::default())?;
        let mut fence = rig.syncs.fence();
        let byte = number.to_le_bytes()[0];
        stream.fill(&writable, byte)?;
        object.signal(&stream, &mut fence, MemSync::Synchronize)?;
        object.wait(&stream, &fence, MemSync::Synchronize)?;
        cpu.wait(&fence, Duration::from_secs(20))?;
        let found = context.read(&stream, &readable)?;
        crate::ensure!(found.iter().all(|found| *found == byte), "cycle {number}: other data");
        object.close()?;
        writable.close()?;
        Ok(readable.close()?)
    })
}
