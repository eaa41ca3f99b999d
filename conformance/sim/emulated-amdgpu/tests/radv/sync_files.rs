//! Fences as sync files, between two devices on RADV.

use ash::vk;
use gpu_interop_core::{ErrorKind, MemoryHandle, MemoryHandleKind};
use gpu_interop_vulkan::{
    BufferImportOptions, BufferOptions, DmaBufAccess, ExportableBuffer, HeadlessContext, ImportedBuffer,
    ImportedSemaphore, SemaphoreOp, SyncFileSemaphore, SyncFileStatus, VulkanInterop, dma_buf_fence, set_dma_buf_fence,
    sync_file_status,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::child::same;
use crate::pictures::interop;
use crate::vulkan::{Gpu, Result};

const WORDS: usize = 4096;
const ROUNDS: u32 = 20;

pub(crate) fn context(gpu: &Gpu, interop: &VulkanInterop) -> HeadlessContext {
    // SAFETY: the queue is of this device and family, and nothing else uses it.
    unsafe { HeadlessContext::on_queue(interop, gpu.family, gpu.queue) }
}

/// A buffer changes hands by the fence of each submission; a signalled fence is accepted, and a pipe, which is no fence, is rejected.
pub(crate) fn sync_files() -> Result<()> {
    run().map_err(|error| error.to_string())
}

fn run() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let [first, second] = [Gpu::new(false)?, Gpu::new(false)?];
    let [ours, theirs] = [interop(&first)?, interop(&second)?];
    let features = ours.sync_file_features()?;
    if !features.exportable || !features.importable {
        return Err("RADV has no sync files".into());
    }
    let [context, other] = [context(&first, &ours), context(&second, &theirs)];
    let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
    let options = BufferOptions::new(WORDS as u64 * 4, usage).handle(MemoryHandleKind::DmaBufFd);
    let exported = ExportableBuffer::new(&ours, &options)?;
    without_implicit_fences(&exported)?;
    // The emulated kernel's dma-bufs are memory files, which an import as a dma-buf rejects.
    let opaque = ExportableBuffer::new(&ours, &options.handle(MemoryHandleKind::OpaqueFd))?;
    let import = BufferImportOptions::new(WORDS as u64 * 4, usage);
    let imported = ImportedBuffer::new(&theirs, opaque.import_request()?, &import)?;
    let done = SyncFileSemaphore::new(&ours)?;
    for round in 0..ROUNDS {
        let signal = SemaphoreOp { semaphore: done.semaphore(), value: 0 };
        let filled = context.submit(&[], &[signal], |commands| {
            if round > 0 {
                commands.acquire(opaque.buffer())?;
            }
            commands.fill(opaque.buffer(), 0, WORDS as u64 * 4, round.wrapping_mul(0x9e37_79b1))?;
            commands.release(opaque.buffer())
        })?;
        // SAFETY: the submission waits for nothing.
        let fence = unsafe { done.export() }?;
        if let Some(fence) = &fence {
            let mut files = [PollFd::new(fence, PollFlags::IN)];
            let ready = poll(&mut files, Some(&Timespec { tv_sec: 20, tv_nsec: 0 }))?;
            assert_eq!(ready, 1, "the sync file is not signalled");
            assert_eq!(sync_file_status(fence)?, SyncFileStatus::Signalled);
        }
        let before = ImportedSemaphore::from_sync_file(&theirs, fence)?;
        let wait = SemaphoreOp { semaphore: before.semaphore(), value: 0 };
        let acquired = other.submit(&[wait], &[], |commands| commands.acquire(imported.buffer()))?;
        acquired.wait(std::time::Duration::from_secs(20))?;
        let mut bytes = vec![0; WORDS * 4];
        other.download(imported.buffer(), 0, &mut bytes)?;
        let words: Vec<_> =
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect();
        same(&format!("round {round}"), &words, |_| round.wrapping_mul(0x9e37_79b1))?;
        other.release(imported.buffer())?;
        filled.wait(std::time::Duration::from_secs(20))?;
    }
    // A fence that is signalled already.
    let signalled = ImportedSemaphore::from_sync_file(&theirs, None)?;
    let wait = SemaphoreOp { semaphore: signalled.semaphore(), value: 0 };
    other.submit(&[wait], &[], |_| Ok(()))?.wait(std::time::Duration::from_secs(20))?;
    // The kernel knows what a sync file is.
    let (pipe, _writer) = rustix::pipe::pipe()?;
    let Err(failure) = ImportedSemaphore::from_sync_file(&theirs, Some(pipe)) else {
        return Err("a pipe was imported as a sync file".into());
    };
    let (error, pipe) = failure.into_parts();
    match (error.kind(), pipe) {
        (ErrorKind::ImportRejected, Some(_)) => Ok(()),
        _ => Err(error.into()),
    }
}

/// The emulated kernel's dma-bufs have no implicit fences.
fn without_implicit_fences(exported: &ExportableBuffer) -> std::result::Result<(), Box<dyn std::error::Error>> {
    let MemoryHandle::DmaBufFd(file) = exported.export()? else { return Err("not a dma-buf".into()) };
    let outcomes =
        [dma_buf_fence(&file, DmaBufAccess::Read).map(drop), set_dma_buf_fence(&file, DmaBufAccess::Write, &file)];
    for outcome in outcomes {
        match outcome {
            Err(error) if error.kind() == ErrorKind::Unsupported && error.message().contains("poll") => {}
            Err(error) => return Err(error.into()),
            Ok(()) => return Err("a memory file has fences".into()),
        }
    }
    Ok(())
}
