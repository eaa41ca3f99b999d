//! DRM syncobjs as timelines: of the host, of RADV's queues, of streams over a bridge, and of a process that is killed.

use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use ash::vk;
use gpu_interop_core::{
    Device, Error, ErrorKind, ExporterTimeline as _, MappedBuffer, MemoryHandleKind, SemaphoreHandle, Timeline,
    TimelineStrategy,
};
use gpu_interop_hip::HipBackend;
use gpu_interop_host::HostBackend;
use gpu_interop_vulkan::{
    BufferImportOptions, BufferOptions, DrmDevice, DrmSyncobj, DrmSyncobjState, ExportableBuffer, ExportableSemaphore,
    ImportedBuffer, MemoryPlacement, OwnedBuffer, SemaphoreOp, SyncFileSemaphore, VulkanInterop,
};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use crate::CHILD;
use crate::child::{same, this_program};
use crate::pictures::interop;
use crate::sync_files::context;
use crate::vulkan::{Gpu, Result};

type Outcome = std::result::Result<(), Box<dyn std::error::Error>>;

/// The render node of the first emulated GPU.
const NODE: &str = "/dev/dri/renderD128";
const LONG: Duration = Duration::from_secs(20);
const SHORT: Duration = Duration::from_millis(30);

fn expect<T>(what: &str, outcome: std::result::Result<T, impl Into<Error>>, kind: ErrorKind) -> Result<()> {
    match outcome.map_err(Into::into) {
        Err(error) if error.kind() == kind => Ok(()),
        Err(error) => Err(format!("{what}: {error}")),
        Ok(_) => Err(format!("{what}: no error")),
    }
}

/// `true` if a descriptor is readable in time.
pub(crate) fn readable(file: &OwnedFd, limit: Duration) -> bool {
    let limit = Timespec { tv_sec: i64::try_from(limit.as_secs()).unwrap_or(0), tv_nsec: limit.subsec_nanos().into() };
    poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&limit)) == Ok(1)
}

fn is(what: &str, timeline: &DrmSyncobj, [signalled, submitted]: [u64; 2]) -> Outcome {
    let found = [timeline.value()?, timeline.last_submitted()?];
    if found == [signalled, submitted] { Ok(()) } else { Err(format!("{what}: {found:?}").into()) }
}

pub(crate) fn points() -> Result<()> {
    run_points().map_err(|error| error.to_string())
}

/// Values, waits, notifications and errors of a syncobj that two open devices have.
fn run_points() -> Outcome {
    let (device, other) = (DrmDevice::open(NODE)?, DrmDevice::open(NODE)?);
    let first = DrmSyncobj::new(&device)?;
    let second = DrmSyncobj::import(&other, first.export()?)?;
    is("a new syncobj", &second, [0, 0])?;
    first.wait(0, Duration::ZERO)?;
    // A point that never comes.
    let start = Instant::now();
    expect("no point", second.wait(1, SHORT), ErrorKind::Timeout)?;
    assert!((SHORT..LONG).contains(&start.elapsed()), "{:?}", start.elapsed());
    expect("no submission", second.sync_file(1, SHORT), ErrorKind::Timeout)?;
    // Points pass from one to the other, with gaps.
    let events = [(); 3].map(|()| eventfd(0, EventfdFlags::CLOEXEC));
    let [fifth, submitted, ninth] = events;
    let [fifth, submitted, ninth] = [fifth?, submitted?, ninth?];
    second.notify(5, DrmSyncobjState::Signalled, &fifth)?;
    second.notify(5, DrmSyncobjState::Submitted, &submitted)?;
    second.notify(9, DrmSyncobjState::Signalled, &ninth)?;
    assert!(!readable(&fifth, Duration::ZERO) && !readable(&submitted, Duration::ZERO));
    std::thread::scope(|scope| -> Outcome {
        let waits = scope.spawn(|| second.wait(4, LONG));
        first.signal(5)?;
        Ok(waits.join().map_err(|_| "the wait panicked")??)
    })?;
    is("after the signal", &second, [5, 5])?;
    assert!(readable(&fifth, LONG) && readable(&submitted, LONG) && !readable(&ninth, SHORT));
    second.wait_for(5, DrmSyncobjState::Submitted, Duration::ZERO)?;
    expect("a later point", second.wait_for(6, DrmSyncobjState::Submitted, SHORT), ErrorKind::Timeout)?;
    // Values out of order are not added.
    for value in [0, 4, 5] {
        expect("a lower value", first.signal(value), ErrorKind::InvalidArgument)?;
    }
    is("after rejected signals", &first, [5, 5])?;
    second.signal(9)?;
    first.wait(9, LONG)?;
    assert!(readable(&ninth, LONG));
    // A point as a sync file, and a sync file as a point.
    let file = first.sync_file(7, Duration::ZERO)?;
    assert!(readable(&file, LONG));
    let third = DrmSyncobj::new(&device)?;
    third.add_sync_file(3, &file)?;
    is("after the sync file", &third, [3, 3])?;
    expect("a lower point", third.add_sync_file(3, &file), ErrorKind::InvalidArgument)?;
    let (pipe, _writer) = rustix::pipe::pipe()?;
    expect("a pipe", third.add_sync_file(4, &pipe), ErrorKind::InvalidArgument)?;
    is("after the pipe", &third, [3, 3])?;
    expect("the point 0", third.sync_file(0, SHORT), ErrorKind::InvalidArgument)?;
    expect("a notification of 0", third.notify(0, DrmSyncobjState::Signalled, &ninth), ErrorKind::InvalidArgument)?;
    expect("a pipe", third.notify(9, DrmSyncobjState::Signalled, &pipe), ErrorKind::InvalidArgument)?;
    // Other files are returned.
    let number = pipe.as_raw_fd();
    let Err(failure) = DrmSyncobj::import(&device, pipe) else { return Err("a pipe is a syncobj".into()) };
    let (error, pipe) = failure.into_parts();
    assert_eq!((error.kind(), pipe.as_raw_fd()), (ErrorKind::InvalidArgument, number));
    // The syncobj lives as long as one of its holders.
    drop((first, device));
    second.signal(10)?;
    is("the other one", &second, [10, 10])?;
    Ok(())
}

pub(crate) fn old_kernel() -> Result<()> {
    run_old_kernel().map_err(|error| error.to_string())
}

/// The injected answers of a kernel without these calls; then of a device that was removed.
fn run_old_kernel() -> Outcome {
    let device = DrmDevice::open(NODE)?;
    let timeline = DrmSyncobj::new(&device)?;
    let event = eventfd(0, EventfdFlags::CLOEXEC)?;
    expect("an eventfd", timeline.notify(1, DrmSyncobjState::Signalled, &event), ErrorKind::Unsupported)?;
    expect("a query", timeline.last_submitted(), ErrorKind::Unsupported)?;
    timeline.signal(1)?;
    expect("a lost device", timeline.wait(1, LONG), ErrorKind::DeviceLost)?;
    is("afterwards", &timeline, [1, 1])
}

const WORDS: u64 = 4096;
const ROUNDS: u64 = 12;

fn word(round: u64) -> u32 {
    u32::try_from(round + 1).unwrap_or(0).wrapping_mul(0x9e37_79b1)
}

/// A buffer that two queues share, and one for what the second has seen in each round.
struct Exchange {
    opaque: ExportableBuffer,
    imported: ImportedBuffer,
    seen: OwnedBuffer,
}

impl Exchange {
    fn new(ours: &VulkanInterop, theirs: &VulkanInterop) -> gpu_interop_core::Result<Self> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let options = BufferOptions::new(WORDS * 4, usage).handle(MemoryHandleKind::OpaqueFd);
        let opaque = ExportableBuffer::new(ours, &options)?;
        let import = BufferImportOptions::new(WORDS * 4, usage);
        let imported = ImportedBuffer::new(theirs, opaque.import_request()?, &import)?;
        let seen = OwnedBuffer::new(theirs, WORDS * 4 * ROUNDS, usage, MemoryPlacement::DeviceLocal)?;
        Ok(Self { opaque, imported, seen })
    }

    /// The first queue fills in each round, the second copies what it finds.
    fn record(
        &self,
        round: u64,
        commands: &mut gpu_interop_vulkan::Recording<'_>,
        first: bool,
    ) -> gpu_interop_core::Result<()> {
        if !first {
            commands.acquire(self.imported.buffer())?;
            commands.copy(self.imported.buffer(), 0, &self.seen, round * WORDS * 4, WORDS * 4)?;
            return commands.release(self.imported.buffer());
        }
        if round > 0 {
            commands.acquire(self.opaque.buffer())?;
        }
        commands.fill(self.opaque.buffer(), 0, WORDS * 4, word(round))?;
        commands.release(self.opaque.buffer())
    }

    fn check(&self, context: &gpu_interop_vulkan::HeadlessContext) -> Outcome {
        let mut bytes = vec![0; usize::try_from(WORDS * 4 * ROUNDS)?];
        context.download(&self.seen, 0, &mut bytes)?;
        let words: Vec<_> =
            bytes.chunks_exact(4).filter_map(|word| Some(u32::from_le_bytes(*word.first_chunk()?))).collect();
        Ok(same("what the second queue has seen", &words, |at| word(at as u64 / WORDS))?)
    }
}

pub(crate) fn semaphores() -> Result<()> {
    run_semaphores().map_err(|error| error.to_string())
}

/// Two queues of RADV exchange a buffer, and wait for each other's points by sync files.
fn run_semaphores() -> Outcome {
    let [first, second] = [Gpu::new(false)?, Gpu::new(false)?];
    let [ours, theirs] = [interop(&first)?, interop(&second)?];
    let [context, other] = [context(&first, &ours), context(&second, &theirs)];
    let exchange = Exchange::new(&ours, &theirs)?;
    // Each side has the syncobj by its own device.
    let device = DrmDevice::of(&ours)?;
    let timeline = DrmSyncobj::new(&device)?;
    let received = DrmSyncobj::import(&DrmDevice::open(NODE)?, timeline.export()?)?;
    let [done, read] = [SyncFileSemaphore::new(&ours)?, SyncFileSemaphore::new(&theirs)?];
    let mut pending = Vec::new();
    for round in 0..ROUNDS {
        let (filled, copied) = (2 * round + 1, 2 * round + 2);
        let before = if round > 0 { Some(timeline.semaphore(&ours, filled - 1, LONG)?) } else { None };
        let waits: Vec<_> =
            before.iter().map(|before| SemaphoreOp { semaphore: before.semaphore(), value: 0 }).collect();
        let signal = SemaphoreOp { semaphore: done.semaphore(), value: 0 };
        pending.push(context.submit(&waits, &[signal], |commands| exchange.record(round, commands, true))?);
        // A rejected point keeps the signal.
        // SAFETY: the submission waits for fences of the kernel only.
        let lower = unsafe { timeline.add_signal(filled - 1, &done) };
        match lower {
            // The earlier point was signalled in between.
            Err(error) if error.kind() == ErrorKind::InvalidArgument => {}
            lower => expect("a lower point", lower, ErrorKind::Overtaken)?,
        }
        // SAFETY: as above.
        unsafe { timeline.add_signal(filled, &done) }?;
        let before = received.semaphore(&theirs, filled, LONG)?;
        let wait = SemaphoreOp { semaphore: before.semaphore(), value: 0 };
        let signal = SemaphoreOp { semaphore: read.semaphore(), value: 0 };
        pending.push(other.submit(&[wait], &[signal], |commands| exchange.record(round, commands, false))?);
        // SAFETY: as above.
        unsafe { received.add_signal(copied, &read) }?;
        assert_eq!(received.last_submitted()?, copied);
    }
    timeline.wait(2 * ROUNDS, LONG)?;
    pending.iter().try_for_each(|submission| submission.wait(LONG))?;
    is("at the end", &timeline, [2 * ROUNDS; 2])?;
    exchange.check(&other)
}

pub(crate) fn timelines() -> Result<()> {
    run_timelines().map_err(|error| error.to_string())
}

/// RADV's timeline semaphores are syncobjs: those that it exports, and those that it imports. Queues wait for points that are not
/// submitted yet.
fn run_timelines() -> Outcome {
    let [first, second] = [Gpu::new(false)?, Gpu::new(false)?];
    let [ours, theirs] = [interop(&first)?, interop(&second)?];
    let [context, other] = [context(&first, &ours), context(&second, &theirs)];
    let exchange = Exchange::new(&ours, &theirs)?;
    let device = DrmDevice::of(&ours)?;
    // There: a syncobj of this process. Back: a semaphore of RADV.
    let there = DrmSyncobj::new(&device)?;
    let [to, from] = [there.timeline_semaphore(&ours)?, there.timeline_semaphore(&theirs)?];
    let exported = ExportableSemaphore::timeline(&theirs, 0)?;
    let SemaphoreHandle::TimelineFd(file) = exported.export()? else { return Err("not a timeline".into()) };
    let back = DrmSyncobj::import(&device, file)?;
    let answered = back.timeline_semaphore(&ours)?;
    let mut pending = Vec::new();
    for round in 0..ROUNDS {
        let value = round + 1;
        let wait = SemaphoreOp { semaphore: answered.semaphore(), value: round };
        let signal = SemaphoreOp { semaphore: to.semaphore(), value };
        // The first submission waits for nothing.
        let waits = if round > 0 { vec![wait] } else { Vec::new() };
        pending.push(context.submit(&waits, &[signal], |commands| exchange.record(round, commands, true))?);
        let wait = SemaphoreOp { semaphore: from.semaphore(), value };
        let signal = SemaphoreOp { semaphore: exported.semaphore(), value };
        pending.push(other.submit(&[wait], &[signal], |commands| exchange.record(round, commands, false))?);
    }
    back.wait(ROUNDS, LONG)?;
    pending.iter().try_for_each(|submission| submission.wait(LONG))?;
    is("there", &there, [ROUNDS; 2])?;
    is("back", &back, [ROUNDS; 2])?;
    exchange.check(&other)?;
    // A queue waits for a point that the host signals later.
    let gate = ROUNDS + 1;
    let wait = SemaphoreOp { semaphore: from.semaphore(), value: gate };
    let signal = SemaphoreOp { semaphore: exported.semaphore(), value: gate };
    let held = other.submit(&[wait], &[signal], |_| Ok(()))?;
    expect("before the host's signal", back.wait(gate, SHORT), ErrorKind::Timeout)?;
    there.signal(gate)?;
    back.wait(gate, LONG)?;
    held.wait(LONG)?;
    Ok(())
}

pub(crate) fn bridge() -> Result<()> {
    let memory = |device: &Device, _: &VulkanInterop| {
        let own = device.allocate_exportable(WORDS * 4)?;
        device.import_memory(own.import_request()?)?.map_buffer(..)
    };
    let device = Device::open(&HostBackend::new(), 0).map_err(|error| error.to_string())?;
    run_bridge(&device, memory).map_err(|error| error.to_string())
}

/// As [`bridge`], with streams of AMD's runtime on memory of RADV.
pub(crate) fn hip_bridge() -> Result<()> {
    let memory = |device: &Device, interop: &VulkanInterop| {
        let options =
            BufferOptions::new(WORDS * 4, vk::BufferUsageFlags::TRANSFER_DST).handle(MemoryHandleKind::OpaqueFd);
        let exported = ExportableBuffer::new(interop, &options)?;
        device.import_memory(exported.import_request()?)?.map_buffer(..)
    };
    let backend = HipBackend::load().map_err(|error| error.to_string())?;
    let device = Device::open(&backend, 0).map_err(|error| error.to_string())?;
    match run_bridge(&device, memory) {
        // HIP 5.2 has no timelines.
        Err(error) if error.downcast_ref::<Error>().is_some_and(|error| error.kind() == ErrorKind::DriverTooOld) => {
            Ok(())
        }
        outcome => outcome.map_err(|error| error.to_string()),
    }
}

/// Streams and RADV's queue wait for each other over the bridge of a syncobj.
fn run_bridge(
    device: &Device,
    memory: impl FnOnce(&Device, &VulkanInterop) -> gpu_interop_core::Result<MappedBuffer>,
) -> Outcome {
    let gpu = Gpu::new(false)?;
    let interop = interop(&gpu)?;
    let context = context(&gpu, &interop);
    let drm = DrmDevice::of(&interop)?;
    let [there, back] = [DrmSyncobj::new(&drm)?, DrmSyncobj::new(&drm)?];
    let [to, from] = [there.clone(), back.clone()].map(|timeline| Timeline::new(device, Arc::new(timeline)));
    let (to, from) = (to?, from?);
    assert_eq!(to.strategy(), TimelineStrategy::HostBridge);
    let memory = memory(device, &interop)?;
    let stream = device.create_stream()?;
    let done = SyncFileSemaphore::new(&interop)?;
    for value in 1..=ROUNDS {
        stream.wait_timeline(&to, value)?;
        stream.fill_u32(memory.slice(..)?, word(value))?;
        stream.signal_timeline(&from, value)?;
        // The stream waits for RADV.
        expect("before the signal", back.wait(value, Duration::from_millis(5)), ErrorKind::Timeout)?;
        let signal = SemaphoreOp { semaphore: done.semaphore(), value: 0 };
        let submitted = context.submit(&[], &[signal], |_| Ok(()))?;
        // SAFETY: the submission waits for nothing.
        unsafe { there.add_signal(value, &done) }?;
        // RADV waits for the stream.
        let before = back.semaphore(&interop, value, LONG)?;
        let wait = SemaphoreOp { semaphore: before.semaphore(), value: 0 };
        context.submit(&[wait], &[], |_| Ok(()))?.wait(LONG)?;
        submitted.wait(LONG)?;
        let mut bytes = vec![0; usize::try_from(memory.size())?];
        stream.read(&memory, &mut bytes)?;
        let words: Vec<_> =
            bytes.chunks_exact(4).filter_map(|word| Some(u32::from_ne_bytes(*word.first_chunk()?))).collect();
        same(&format!("value {value}"), &words, |_| word(value))?;
    }
    // Another device file has another waiter.
    let elsewhere = DrmSyncobj::import(&DrmDevice::open(NODE)?, there.export()?)?;
    let waiter = there.waiter()?;
    assert!(waiter.serves(&back) && !waiter.serves(&elsewhere));
    expect("a foreign timeline", waiter.wait_any(&[(&elsewhere, 1)], SHORT), ErrorKind::InvalidArgument)?;
    // A point that never comes holds the stream until the timeline is abandoned.
    stream.wait_timeline(&to, ROUNDS + 1)?;
    expect("a point that never comes", stream.synchronize_timeout(SHORT), ErrorKind::Timeout)?;
    to.abandon("the test ends")?;
    match stream.synchronize_timeout(LONG) {
        Err(error) if error.kind() == ErrorKind::Cancelled => Ok(()),
        other => Err(format!("an abandoned timeline: {other:?}").into()),
    }
}

/// The name of the second process.
pub(crate) const PEER: &str = "syncobj_peer";

pub(crate) fn second_process() -> Result<()> {
    run_second_process().map_err(|error| error.to_string())
}

/// A producer is killed with work for point 1 pending, and never submits point 2.
fn run_second_process() -> Outcome {
    use std::os::unix::process::ExitStatusExt as _;

    let gpu = Gpu::new(false)?;
    let interop = interop(&gpu)?;
    let context = context(&gpu, &interop);
    let timeline = DrmSyncobj::new(&DrmDevice::of(&interop)?)?;
    let file = timeline.export()?;
    rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
    let event = eventfd(0, EventfdFlags::CLOEXEC)?;
    timeline.notify(1, DrmSyncobjState::Signalled, &event)?;
    let mut peer = this_program().args([CHILD, PEER, &file.as_raw_fd().to_string()]).spawn()?;
    let before = timeline.semaphore(&interop, 1, LONG)?;
    let wait = SemaphoreOp { semaphore: before.semaphore(), value: 0 };
    let waiting = context.submit(&[wait], &[], |_| Ok(()))?;
    let status = peer.wait()?;
    if status.signal() != Some(libc::SIGKILL) {
        return Err(format!("the producer: {status}").into());
    }
    timeline.wait(1, LONG)?;
    assert!(readable(&event, LONG));
    is("after the producer's end", &timeline, [1, 1])?;
    // The queue's wait ends, too, with or without the error of the fence.
    if let Err(error) = waiting.wait(LONG)
        && error.kind() == ErrorKind::Timeout
    {
        return Err(error.into());
    }
    expect("the next point", timeline.wait(2, SHORT), ErrorKind::Timeout)?;
    // The timeline stays usable.
    timeline.signal(2)?;
    is("after the next signal", &timeline, [2, 2])?;
    let next = Gpu::new(false)?;
    let interop = self::interop(&next)?;
    let after = timeline.semaphore(&interop, 2, LONG)?;
    let wait = SemaphoreOp { semaphore: after.semaphore(), value: 0 };
    self::context(&next, &interop).submit(&[wait], &[], |_| Ok(()))?.wait(LONG)?;
    Ok(())
}

pub(crate) fn peer(numbers: &[String]) -> Result<()> {
    run_peer(numbers).map_err(|error| error.to_string())
}

fn run_peer(numbers: &[String]) -> Outcome {
    let [file] = numbers else { return Err("a descriptor is needed".into()) };
    // SAFETY: the parent passed it, and nothing else in this process uses it.
    let file = unsafe { OwnedFd::from_raw_fd(file.parse()?) };
    let gpu = Gpu::new(false)?;
    let interop = interop(&gpu)?;
    let context = context(&gpu, &interop);
    let timeline = DrmSyncobj::import(&DrmDevice::of(&interop)?, file)?;
    let usage = vk::BufferUsageFlags::TRANSFER_DST;
    let buffer = OwnedBuffer::new(&interop, 64 << 20, usage, MemoryPlacement::DeviceLocal)?;
    let done = SyncFileSemaphore::new(&interop)?;
    let signal = SemaphoreOp { semaphore: done.semaphore(), value: 0 };
    let pending = context
        .submit(&[], &[signal], |commands| (0..100).try_for_each(|round| commands.fill(&buffer, 0, 64 << 20, round)))?;
    // SAFETY: the submission waits for nothing.
    unsafe { timeline.add_signal(1, &done) }?;
    is("while the work is pending", &timeline, [0, 1])?;
    rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL)?;
    Ok(pending.wait(LONG)?)
}
