//! Syncobjs in shared memory: a memfd with the content and with the states of its fences.
//!
//! The process that executes a fence's work writes its state. If that process has ended, the fence is done with an
//! error, as when the kernel cancels the work of a closed device.

use std::collections::VecDeque;
use std::ffi::CStr;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use rustix::fs::MemfdFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::Pid;

use crate::abi::Result;
use crate::memory::Kept;
use crate::sync::fence::Hook;
use crate::sync::payload::Timeline;
use crate::sync::{CANCELLED, Fence, Payload, Signals, State};

const NAME: &CStr = c"emulated-amdgpu-syncobj";
const MAGIC: u64 = 0x616d_6467_7075_0002;
/// Points that may be pending at a time, and fences.
const POINTS: usize = 1024;
/// In place of a fence's number: it is signalled.
const SIGNALLED: u32 = u32::MAX;

const EMPTY: u32 = 0;
const BINARY: u32 = 1;
const TIMELINE: u32 = 2;

#[repr(C)]
#[derive(Debug)]
struct Layout {
    magic: AtomicU64,
    /// The process that has the lock; 0 for none.
    lock: AtomicU32,
    kind: AtomicU32,
    /// The number of points.
    count: AtomicU32,
    /// Where the search for an unused fence begins.
    next: AtomicU32,
    signalled: AtomicU64,
    points: [Point; POINTS],
    fences: [SharedFence; POINTS],
}

#[repr(C)]
#[derive(Debug)]
struct Point {
    value: AtomicU64,
    fence: AtomicU32,
    generation: AtomicU32,
}

/// A fence. Its place is used again when it is done, with another generation.
#[repr(C)]
#[derive(Debug)]
struct SharedFence {
    generation: AtomicU32,
    pending: AtomicU32,
    owner: AtomicI32,
    /// The error's number, or 0.
    error: AtomicI32,
}

#[derive(Debug)]
pub(super) struct Shared {
    file: Kept,
    layout: NonNull<Layout>,
    own_process: i32,
}

// SAFETY: the mapping lives as long as the object, and its contents are atomic.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

impl Drop for Shared {
    fn drop(&mut self) {
        // SAFETY: this object owns the mapping, and no reference to it exists.
        _ = unsafe { rustix::mm::munmap(self.layout.as_ptr().cast(), size_of::<Layout>()) };
    }
}

impl Shared {
    pub(super) fn new(signals: &Signals) -> Result<Arc<Self>> {
        let file = rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, size_of::<Layout>() as u64)?;
        let shared = Self::map(file.as_fd(), signals)?;
        shared.layout().magic.store(MAGIC, Ordering::Release);
        Ok(Arc::new(shared))
    }

    /// Opens a syncobj of any process. EINVAL for another file.
    pub(super) fn open(file: BorrowedFd<'_>, signals: &Signals) -> Result<Arc<Self>> {
        let link = rustix::fs::readlink(format!("/proc/self/fd/{}", file.as_raw_fd()), Vec::new())?;
        let named = link.as_bytes().strip_prefix(b"/memfd:").is_some_and(|name| name.starts_with(NAME.to_bytes()));
        let size = rustix::fs::fstat(file)?.st_size;
        if !named || u64::try_from(size) != Ok(size_of::<Layout>() as u64) {
            return Err(Errno::INVAL);
        }
        let shared = Self::map(file, signals)?;
        if shared.layout().magic.load(Ordering::Acquire) != MAGIC {
            return Err(Errno::INVAL);
        }
        Ok(Arc::new(shared))
    }

    fn map(file: BorrowedFd<'_>, signals: &Signals) -> Result<Self> {
        let (length, protection) = (size_of::<Layout>(), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a new mapping at an address chosen by the kernel affects no other memory.
        let at = unsafe { rustix::mm::mmap(std::ptr::null_mut(), length, protection, MapFlags::SHARED, file, 0)? };
        let layout = NonNull::new(at.cast()).ok_or(Errno::NOMEM)?;
        let file = signals.keeper.keep(file)?;
        Ok(Self { file, layout, own_process: rustix::process::getpid().as_raw_nonzero().get() })
    }

    pub(super) fn descriptor(&self) -> Result<OwnedFd> {
        self.file.open()
    }

    fn layout(&self) -> &Layout {
        // SAFETY: the mapping has this size and alignment, lives as long as `self`, and any bytes are valid atomics.
        unsafe { self.layout.as_ref() }
    }

    /// Changes the content.
    pub(super) fn edit<R>(
        self: &Arc<Self>,
        signals: &Arc<Signals>,
        function: impl FnOnce(&mut Payload) -> R,
    ) -> Result<R> {
        let _locked = Locked::new(self);
        let mut payload = self.load();
        let result = function(&mut payload);
        payload.advance();
        self.store(&payload, signals)?;
        Ok(result)
    }

    /// Reads the content.
    pub(super) fn read<R>(self: &Arc<Self>, function: impl FnOnce(&mut Payload) -> R) -> R {
        let mut payload = {
            let _locked = Locked::new(self);
            self.load()
        };
        function(&mut payload)
    }

    fn load(self: &Arc<Self>) -> Payload {
        let layout = self.layout();
        let count = layout.count.load(Ordering::Acquire) as usize;
        let points: VecDeque<_> = layout.points.iter().take(count).map(|point| self.point(point)).collect();
        match (layout.kind.load(Ordering::Acquire), points.front()) {
            (BINARY, Some((_, fence))) => Payload::Binary(fence.clone()),
            (TIMELINE, _) => {
                Payload::Timeline(Timeline { signalled: layout.signalled.load(Ordering::Acquire), points })
            }
            _ => Payload::Empty,
        }
    }

    fn point(self: &Arc<Self>, point: &Point) -> (u64, Fence) {
        let (number, generation) = (point.fence.load(Ordering::Acquire), point.generation.load(Ordering::Acquire));
        let fence = match number {
            SIGNALLED => Fence::Signalled,
            number => Fence::Shared(Slot { shared: Arc::clone(self), number, generation }),
        };
        (point.value.load(Ordering::Acquire), fence)
    }

    fn store(self: &Arc<Self>, payload: &Payload, signals: &Arc<Signals>) -> Result<()> {
        let (kind, signalled, points): (_, _, Vec<_>) = match payload {
            Payload::Empty => (EMPTY, 0, Vec::new()),
            Payload::Binary(fence) => (BINARY, 0, vec![(0, fence)]),
            Payload::Timeline(timeline) => {
                (TIMELINE, timeline.signalled, timeline.points.iter().map(|(value, fence)| (*value, fence)).collect())
            }
        };
        if points.len() > POINTS {
            return Err(Errno::NOMEM);
        }
        let own = |fence: &Fence| match fence {
            Fence::Shared(slot) if Arc::ptr_eq(&slot.shared, self) => Some((slot.number, slot.generation)),
            _ => None,
        };
        let mut used: Vec<u32> = points.iter().filter_map(|(_, fence)| own(fence)).map(|(number, _)| number).collect();
        let mut numbers = Vec::new();
        for (_, fence) in &points {
            numbers.push(match own(fence) {
                Some(known) => known,
                None if fence.is_done() => (SIGNALLED, 0),
                None => {
                    let slot = self.new_fence(&used)?;
                    used.push(slot.number);
                    let number = (slot.number, slot.generation);
                    fence.then(Hook::Slot(slot), signals)?;
                    number
                }
            });
        }
        let layout = self.layout();
        for (point, ((value, _), (number, generation))) in layout.points.iter().zip(points.iter().zip(numbers)) {
            point.value.store(*value, Ordering::Release);
            point.fence.store(number, Ordering::Release);
            point.generation.store(generation, Ordering::Release);
        }
        layout.signalled.store(signalled, Ordering::Release);
        layout.count.store(u32::try_from(points.len()).unwrap_or(0), Ordering::Release);
        layout.kind.store(kind, Ordering::Release);
        Ok(())
    }

    /// Takes a place for a pending fence of this process: one that is done, and that no point has.
    fn new_fence(self: &Arc<Self>, used: &[u32]) -> Result<Slot> {
        let layout = self.layout();
        let start = layout.next.load(Ordering::Relaxed) as usize;
        let mut places = (0..POINTS).map(|distance| (start + distance) % POINTS);
        let free = |at: &usize| {
            let number = u32::try_from(*at).unwrap_or(SIGNALLED);
            let fence = layout.fences.get(*at);
            let slot = |fence: &SharedFence| Slot {
                shared: Arc::clone(self),
                number,
                generation: fence.generation.load(Ordering::Acquire),
            };
            !used.contains(&number) && fence.is_some_and(|fence| slot(fence).state() != State::Pending)
        };
        let at = places.find(free).ok_or(Errno::NOMEM)?;
        let fence = layout.fences.get(at).ok_or(Errno::NOMEM)?;
        layout.next.store(u32::try_from(at + 1).unwrap_or(0), Ordering::Relaxed);
        let generation = fence.generation.load(Ordering::Acquire).wrapping_add(1);
        // The generation first: a holder of the earlier generation then reads it as completed.
        fence.generation.store(generation, Ordering::SeqCst);
        fence.owner.store(self.own_process, Ordering::SeqCst);
        fence.error.store(0, Ordering::SeqCst);
        fence.pending.store(1, Ordering::SeqCst);
        Ok(Slot { shared: Arc::clone(self), number: u32::try_from(at).map_err(|_| Errno::NOMEM)?, generation })
    }
}

/// A fence in a shared syncobj.
#[derive(Debug, Clone)]
pub(crate) struct Slot {
    shared: Arc<Shared>,
    number: u32,
    generation: u32,
}

impl Slot {
    fn fence(&self) -> Option<&SharedFence> {
        self.shared.layout().fences.get(self.number as usize)
    }

    pub(super) fn state(&self) -> State {
        let Some(fence) = self.fence() else { return State::Done(None) };
        let pending = fence.pending.load(Ordering::SeqCst) != 0;
        let (owner, error) = (fence.owner.load(Ordering::SeqCst), fence.error.load(Ordering::SeqCst));
        if fence.generation.load(Ordering::SeqCst) != self.generation {
            return State::Done(None);
        }
        match pending {
            true if owner != self.shared.own_process && has_ended(owner) => State::Done(Some(CANCELLED)),
            true => State::Pending,
            false => State::Done((error != 0).then(|| Errno::from_raw_os_error(error))),
        }
    }

    pub(super) fn signal(&self, error: Option<Errno>) {
        if let Some(fence) = self.fence()
            && fence.generation.load(Ordering::SeqCst) == self.generation
        {
            fence.error.store(error.map_or(0, Errno::raw_os_error), Ordering::SeqCst);
            fence.pending.store(0, Ordering::SeqCst);
        }
    }
}

/// `true` if a process does not exist, or has only its status left.
fn has_ended(process: i32) -> bool {
    let Some(pid) = Pid::from_raw(process) else { return true };
    if rustix::process::test_kill_process(pid) == Err(Errno::SRCH) {
        return true;
    }
    // The state follows the name, which is in parentheses.
    let state = std::fs::read_to_string(format!("/proc/{process}/stat"));
    state.is_ok_and(|text| text.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with(['Z', 'X'])))
}

/// Time after which the lock is taken from a process that does not give it back: it was stopped within its few
/// instructions.
const LOCK_LIMIT: Duration = Duration::from_secs(5);

/// The lock of a shared syncobj, held.
struct Locked<'a>(&'a Shared);

impl<'a> Locked<'a> {
    fn new(shared: &'a Shared) -> Self {
        let (lock, own) = (&shared.layout().lock, shared.own_process.cast_unsigned());
        let since = Instant::now();
        let mut rounds = 0_u32;
        let mut expected = 0;
        while let Err(holder) = lock.compare_exchange(expected, own, Ordering::SeqCst, Ordering::SeqCst) {
            expected = 0;
            rounds = rounds.saturating_add(1);
            if rounds < 100 {
                std::hint::spin_loop();
                continue;
            }
            std::thread::sleep(Duration::from_micros(20));
            let ended = rounds.is_multiple_of(1000) && has_ended(holder.cast_signed());
            if holder != 0 && (ended || since.elapsed() > LOCK_LIMIT) {
                expected = holder;
            }
        }
        Self(shared)
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.0.layout().lock.store(0, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::JobFence;

    /// The syncobj as another process has it.
    fn of_another_process(shared: &Shared) -> Arc<Shared> {
        let mut other = Shared::map(shared.descriptor().unwrap().as_fd(), &Signals::default()).unwrap();
        other.own_process = 1;
        Arc::new(other)
    }

    fn state(shared: &Arc<Shared>, point: u64) -> Option<State> {
        shared.read(|payload| payload.find(point).map(|fence| fence.state()))
    }

    #[test]
    fn both_sides_see_points_and_their_signals() {
        let signals = Arc::default();
        let own = Shared::new(&signals).unwrap();
        let other = of_another_process(&own);
        let jobs = [(); 2].map(|()| JobFence::new(&signals));
        own.edit(&signals, |payload| payload.add(3, Fence::Job(Arc::clone(&jobs[0])))).unwrap();
        other.edit(&signals, |payload| payload.add(5, Fence::Job(Arc::clone(&jobs[1])))).unwrap();
        let taken = other.read(|payload| payload.find(3)).unwrap();
        assert!(taken.is_foreign());
        jobs[1].signal(None);
        let pending = Some(State::Pending);
        assert_eq!([&own, &other].map(|it| (state(it, 3), state(it, 5), state(it, 6))), [(pending, pending, None); 2]);
        jobs[0].signal(Some(Errno::IO));
        assert_eq!(taken.state(), State::Done(Some(Errno::IO)), "the error is shared");
        assert_eq!([&own, &other].map(|it| it.read(|payload| payload.value(false))), [5, 5]);
        other.edit(&signals, |payload| payload.replace(None)).unwrap();
        assert_eq!(state(&own, 0), None);
    }

    #[test]
    fn places_of_done_fences_are_used_again_and_stay_done() {
        let signals = Arc::default();
        let own = Shared::new(&signals).unwrap();
        let mut taken = Vec::new();
        for round in 0..3 * POINTS {
            let job = JobFence::new(&signals);
            own.edit(&signals, |payload| payload.replace(Some(Fence::Job(Arc::clone(&job))))).unwrap();
            if round % 100 == 0 {
                taken.push(own.read(|payload| payload.find(0)).unwrap());
            }
            assert_eq!(state(&own, 0), Some(State::Pending), "round {round}");
            job.signal(None);
        }
        assert!(taken.iter().all(Fence::is_done));
        let jobs: Vec<_> = (0..=POINTS).map(|_| JobFence::new(&signals)).collect();
        own.edit(&signals, |payload| payload.replace(None)).unwrap();
        let added: Vec<_> = (1..)
            .zip(&jobs)
            .map(|(point, job)| own.edit(&signals, |payload| payload.add(point, Fence::Job(Arc::clone(job)))))
            .collect();
        let fits = |result: &&Result<()>| result.is_ok();
        assert_eq!((added.iter().filter(fits).count(), added.last()), (POINTS, Some(&Err(Errno::NOMEM))));
    }

    #[test]
    fn fences_of_a_process_that_has_ended_are_done_with_an_error() {
        let signals = Arc::default();
        let own = Shared::new(&signals).unwrap();
        let other = of_another_process(&own);
        let job = JobFence::new(&signals);
        own.edit(&signals, |payload| payload.replace(Some(Fence::Job(Arc::clone(&job))))).unwrap();
        let mut child = std::process::Command::new("/bin/sleep").arg("100").spawn().unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        own.layout().fences[0].owner.store(pid, Ordering::SeqCst);
        assert_eq!(state(&other, 0), Some(State::Pending));
        child.kill().unwrap();
        // Until its parent has asked for it, the status of the process is left.
        let since = Instant::now();
        while !has_ended(pid) && since.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(state(&other, 0), Some(State::Done(Some(CANCELLED))));
        child.wait().unwrap();
        assert_eq!(state(&other, 0), Some(State::Done(Some(CANCELLED))));
    }

    #[test]
    fn only_syncobjs_are_opened() {
        let signals = Signals::default();
        let shared = Shared::new(&signals).unwrap();
        assert!(Shared::open(shared.descriptor().unwrap().as_fd(), &signals).is_ok());
        let other = rustix::fs::memfd_create(c"x", MemfdFlags::CLOEXEC).unwrap();
        rustix::fs::ftruncate(&other, size_of::<Layout>() as u64).unwrap();
        assert_eq!(Shared::open(other.as_fd(), &signals).unwrap_err(), Errno::INVAL);
    }
}
