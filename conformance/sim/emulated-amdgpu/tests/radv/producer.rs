//! A producer that is killed: its picture stays usable, and its fence ends.

use std::io::{IoSlice, IoSliceMut, Read as _, Write as _};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use ash::vk;
use gpu_interop_core::ErrorKind;
use gpu_interop_core::format::{DmaBufPicture, DmaBufPlane, DrmFourcc, DrmModifier};
use gpu_interop_vulkan::{
    ImportedSemaphore, MemoryPlacement, OwnedBuffer, SemaphoreOp, SyncFileSemaphore, SyncFileStatus, sync_file_status,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
};

use crate::CHILD;
use crate::pictures::{self, Sample, interop};
use crate::sync_files::context;
use crate::syncobjs::readable;
use crate::vulkan::{Gpu, Result};

type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

/// The name of the second process.
pub(crate) const PEER: &str = "picture_producer";

const EXTENT: [u32; 2] = [202, 134];
/// Those of the producer, of the device that imports, and after the producer's end.
const SEEDS: [u64; 3] = [21, 22, 23];
const LONG: Duration = Duration::from_secs(20);

/// The pictures: a format, and whether its planes are in several objects.
const PICTURES: [(&str, bool); 3] = [("AR24", false), ("NV12", false), ("P010", true)];

pub(crate) fn killed() -> Result<()> {
    PICTURES.iter().enumerate().try_for_each(|(index, (code, apart))| {
        run_killed(index, code, *apart).map_err(|error| format!("{code}: {error}"))
    })
}

fn run_killed(index: usize, code: &str, apart: bool) -> Outcome {
    use std::os::unix::process::ExitStatusExt as _;

    let (mut ours, theirs) = UnixStream::pair()?;
    let mut producer = crate::child::this_program();
    producer.args([CHILD, PEER, &index.to_string()]).stdin(Stdio::from(OwnedFd::from(theirs)));
    let mut producer = producer.spawn()?;
    let (numbers, mut files) = receive(&ours)?;
    let [modifier, layouts @ ..] = &numbers[..] else { return Err("the producer has ended".into()) };
    let fence = files.pop().ok_or("no fence")?;
    let planes = || -> std::io::Result<Vec<_>> {
        let planes = files.iter().zip(layouts.chunks_exact(2));
        planes.map(|(file, layout)| Ok(DmaBufPlane::new(file.try_clone()?, layout[0], layout[1]))).collect()
    };
    let picture = || -> std::io::Result<_> {
        Ok(DmaBufPicture::new(DrmFourcc::from_code(code), DrmModifier(*modifier), EXTENT, planes()?))
    };
    // A queue waits for the fence of the producer's work, which is pending.
    let gpu = Gpu::new(false)?;
    let interop = self::interop(&gpu)?;
    let context = self::context(&gpu, &interop);
    let before = ImportedSemaphore::from_sync_file(&interop, Some(fence.try_clone()?))?;
    let wait = SemaphoreOp { semaphore: before.semaphore(), value: 0 };
    let waiting = context.submit(&[wait], &[], |_| Ok(()))?;
    if readable(&fence, Duration::ZERO) {
        return Err("the producer's work has ended too early".into());
    }
    assert_eq!(sync_file_status(&fence)?, SyncFileStatus::Pending);
    ours.write_all(&[1])?;
    let status = producer.wait()?;
    if status.signal() != Some(libc::SIGKILL) {
        return Err(format!("the producer: {status}").into());
    }
    if !readable(&fence, LONG) {
        return Err("the fence of a killed producer does not end".into());
    }
    assert_eq!(sync_file_status(&fence)?, SyncFileStatus::Failed(libc::ECANCELED));
    // The wait ends, or the driver reports the fence's error.
    let user = match waiting.wait(LONG) {
        Ok(()) => gpu,
        Err(error) if [ErrorKind::DeviceLost, ErrorKind::Driver].contains(&error.kind()) => Gpu::new(false)?,
        Err(error) => return Err(error.into()),
    };
    let interop = self::interop(&user)?;
    pictures::answer(&user, &interop, code, picture()?, apart, [SEEDS[0], SEEDS[1]])?;
    let third = Gpu::new(false)?;
    let interop = self::interop(&third)?;
    Ok(pictures::answer(&third, &interop, code, picture()?, apart, [SEEDS[1], SEEDS[2]])?)
}

/// The numbers of a message and its descriptors: of each plane, then of the fence.
fn receive(socket: &UnixStream) -> std::result::Result<(Vec<u64>, Vec<OwnedFd>), Box<dyn std::error::Error>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let (mut control, mut bytes) = (RecvAncillaryBuffer::new(&mut space), [0; 64]);
    let parts = &mut [IoSliceMut::new(&mut bytes)];
    let received = rustix::net::recvmsg(socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let files = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => Some(files),
        _ => None,
    });
    let files = files.flatten().collect();
    let words = bytes[..received.bytes].chunks_exact(8);
    Ok((words.filter_map(|word| Some(u64::from_ne_bytes(*word.first_chunk()?))).collect(), files))
}

pub(crate) fn peer(arguments: &[String]) -> Result<()> {
    run_peer(arguments).map_err(|error| error.to_string())
}

/// Writes a picture, then passes it and the fence of work that takes long, and is killed.
fn run_peer(arguments: &[String]) -> Outcome {
    let index: usize = arguments.first().ok_or("a number is missing")?.parse()?;
    let (code, apart) = PICTURES[index];
    let gpu = Gpu::new(false)?;
    let interop = interop(&gpu)?;
    let offered = if apart { pictures::offered_apart(&interop, code) } else { pictures::offered(&interop, code) }?;
    let modifier = *offered.iter().find(|modifier| **modifier != 0).ok_or("no tiled modifier")?;
    let sample = Sample::new(&gpu, code, EXTENT, modifier, apart)?;
    sample.write(&gpu, SEEDS[0])?;
    let size = 64 << 20;
    let buffer = OwnedBuffer::new(&interop, size, vk::BufferUsageFlags::TRANSFER_DST, MemoryPlacement::DeviceLocal)?;
    let done = SyncFileSemaphore::new(&interop)?;
    let signal = SemaphoreOp { semaphore: done.semaphore(), value: 0 };
    let pending = context(&gpu, &interop)
        .submit(&[], &[signal], |commands| (0..60).try_for_each(|round| commands.fill(&buffer, 0, size, round)))?;
    // SAFETY: the submission waits for nothing.
    let fence = unsafe { done.export() }?.ok_or("the work has ended")?;
    let planes = sample.planes()?;
    let layouts = planes.iter().flat_map(|plane| [plane.offset, plane.pitch]);
    let bytes: Vec<u8> = std::iter::once(modifier).chain(layouts).flat_map(u64::to_ne_bytes).collect();
    let files: Vec<_> = planes.iter().map(|plane| plane.fd.as_fd()).chain([fence.as_fd()]).collect();
    let mut socket = UnixStream::from(std::io::stdin().as_fd().try_clone_to_owned()?);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !control.push(SendAncillaryMessage::ScmRights(&files)) {
        return Err("too many planes".into());
    }
    rustix::net::sendmsg(&socket, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL)?;
    // The other process waits for the fence now.
    socket.read_exact(&mut [0])?;
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
    Ok(pending.wait(LONG)?)
}
