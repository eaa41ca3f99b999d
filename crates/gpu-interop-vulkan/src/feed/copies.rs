//! Copies of planes into a frame.

use gpu_interop_core::{Error, Result};

use super::source::FeedSource;
use crate::context::{HeadlessContext, SemaphoreOp};
use crate::image::OwnedImage;
use crate::ring::Frame;
use crate::tracking::State;

/// Submits the copy of a source's planes into the frame.
pub(super) fn copy(
    context: &HeadlessContext,
    source: &FeedSource,
    frame: &mut Frame,
    waits: &[SemaphoreOp<'_>],
    signals: &[SemaphoreOp<'_>],
) -> Result<()> {
    let submitted = frame.render_between(context, waits, signals, |commands, memory| {
        let of_producer: Vec<&OwnedImage> =
            source.images().filter(|image| image.ownership().get() == State::External).collect();
        of_producer.iter().try_for_each(|image| commands.acquire_image(image))?;
        for picture in memory.pictures() {
            for (index, plane) in source.planes.iter().enumerate() {
                let layout = picture.planes().layout(index)?;
                commands.copy_to_rows(&plane.image, plane.aspect, picture.buffer(), layout)?;
            }
        }
        of_producer.iter().try_for_each(|image| commands.release_image(image))
    });
    submitted.map(drop)
}

/// As [`copy`], after the writers of the picture's dma-bufs and before their next ones.
#[cfg(unix)]
pub(super) fn copy_between_implicit_fences(
    context: &HeadlessContext,
    source: &FeedSource,
    frame: &mut Frame,
) -> Result<()> {
    use crate::import::ImportedSemaphore;
    use crate::sync_file::{DmaBufAccess, SyncFileSemaphore};

    let Some(picture) = &source.picture else { return Err(without_dma_bufs()) };
    let interop = context.interop();
    let import = |fence| {
        let imported = ImportedSemaphore::from_sync_file(interop, Some(fence));
        imported.map_err(|failure| failure.into_parts().0)
    };
    let before = picture.fences(DmaBufAccess::Read)?.into_iter().map(import).collect::<Result<Vec<_>>>()?;
    let waits: Vec<_> = before.iter().map(|fence| SemaphoreOp { semaphore: fence.semaphore(), value: 0 }).collect();
    let done = SyncFileSemaphore::new(interop)?;
    copy(context, source, frame, &waits, &[SemaphoreOp { semaphore: done.semaphore(), value: 0 }])?;
    context.wait_until_signalled_by_submissions(done.semaphore())?;
    // SAFETY: all signals on which that of the copy depends were submitted: those of its own waits are fences of the kernel and
    // the last half of the frame, which the ring has seen completed; `wait_until_signalled_by_submissions` has waited for those
    // of the queue's earlier work.
    match unsafe { done.export() }? {
        Some(fence) => picture.add_fence(DmaBufAccess::Read, &fence),
        None => Ok(()),
    }
}

#[cfg(not(unix))]
pub(super) fn copy_between_implicit_fences(_: &HeadlessContext, _: &FeedSource, _: &mut Frame) -> Result<()> {
    Err(without_dma_bufs())
}

fn without_dma_bufs() -> Error {
    let message =
        "only pictures on dma-bufs have implicit fences; pass an ImportedPicture as the source, or semaphores";
    Error::invalid("PictureFeed::to_compute", message)
}
