//! Tests of the ioctls, as a user-space driver calls them.

use rustix::fd::{AsRawFd as _, OwnedFd};
use rustix::io::Errno;

use super::*;
use crate::abi::Plain;
use crate::abi::drm::*;
use crate::emulation::{Device, start};
use crate::memory::Access;

/// An open render node.
struct Node {
    emulation: &'static Emulation,
    descriptor: OwnedFd,
}

impl Node {
    fn open() -> Self {
        let emulation = start().unwrap();
        Self { emulation, descriptor: emulation.files.open(Device::Render(0), true).unwrap() }
    }

    fn file(&self) -> Arc<File> {
        self.emulation.files.find(self.descriptor.as_raw_fd()).unwrap()
    }

    fn call<T: Plain>(&self, number: u8, mut value: T) -> Result<T> {
        let request = u64::from(number) | u64::from(b'd') << 8 | (size_of::<T>() as u64) << 16;
        // SAFETY: the argument has the size in the request; the pointers in it are to live arrays of the tests.
        unsafe { ioctl(self.emulation, &self.file(), 0, request, (&raw mut value).cast())? };
        Ok(value)
    }

    /// Creates an object of video memory.
    fn object(&self, size: u64) -> u32 {
        let created = self.call(number::GEM_CREATE, GemCreate { words: [size, 4096, DOMAIN_VRAM, 0] }).unwrap();
        u32::try_from(created.words[0]).unwrap()
    }

    fn map(&self, operation: u32, handle: u32, flags: u32, [address, offset, size]: [u64; 3]) -> Result<()> {
        self.call(number::GEM_VA, GemVa { handle, pad: 0, operation, flags, address, offset, size }).map(drop)
    }

    fn write(&self, address: u64, words: &[u32]) {
        for (at, word) in (address..).step_by(4).zip(words) {
            self.emulation.memory.write_u32(0, at, *word).unwrap();
        }
    }

    fn read(&self, address: u64) -> u32 {
        self.emulation.memory.read_u32(0, address).unwrap()
    }

    fn context(&self) -> u32 {
        self.call(number::CTX, ContextOperation { words: [CONTEXT_ALLOCATE, 0, 0, 0] }).unwrap().words[0]
    }

    /// Submits commands with other chunks: their kind and their words.
    fn submit(&self, context: u32, engine: u32, commands: &[u32], chunks: &[(u32, Vec<u32>)]) -> Result<u64> {
        let [size] = [u32::try_from(commands.len()).unwrap()];
        let object = self.object(4096);
        let address = self.address();
        self.map(VA_MAP, object, VA_WRITEABLE, [address, 0, 4096]).unwrap();
        self.write(address, commands);
        let [low, high] = [address & 0xffff_ffff, address >> 32].map(|half| u32::try_from(half).unwrap());
        let first = (CHUNK_IB, vec![0, 0, low, high, size * 4, engine, 0, 0]);
        let words: Vec<_> = std::iter::once(&first).chain(chunks).collect();
        let chunks: Vec<_> = words
            .iter()
            .map(|(kind, words)| Chunk {
                kind: *kind,
                words: u32::try_from(words.len()).unwrap(),
                data: words.as_ptr().expose_provenance() as u64,
            })
            .collect();
        let addresses: Vec<_> =
            chunks.iter().map(|chunk| std::ptr::from_ref(chunk).expose_provenance() as u64).collect();
        let count = u32::try_from(addresses.len()).unwrap();
        let chunks = addresses.as_ptr().expose_provenance() as u64;
        let done = self.call(number::CS, Submission { context, list: 0, count, flags: 0, chunks })?;
        Ok(u64::from(done.context) | u64::from(done.list) << 32)
    }

    /// An unused address.
    fn address(&self) -> u64 {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0xffff_8000_1000_0000);
        NEXT.fetch_add(1 << 20, Ordering::Relaxed)
    }

    fn wait(&self, context: u32, engine: u32, sequence: u64, timeout: u64) -> Result<bool> {
        let wait = WaitSubmission { sequence, timeout, engine, instance: 0, ring: 0, context };
        Ok(self.call(number::WAIT_CS, wait)?.sequence == 0)
    }

    fn syncobj(&self) -> u32 {
        self.call(number::SYNCOBJ_CREATE, SyncobjCreate { handle: 0, flags: 0 }).unwrap().handle
    }

    fn wait_syncobj(&self, handle: u32, point: u64, flags: u32, deadline: i64) -> Result<()> {
        let (handles, points) = ([handle], [point]);
        let wait = SyncobjTimelineWait {
            handles: handles.as_ptr().expose_provenance() as u64,
            points: points.as_ptr().expose_provenance() as u64,
            deadline,
            count: 1,
            flags,
            ..Default::default()
        };
        self.call(number::SYNCOBJ_TIMELINE_WAIT, wait).map(drop)
    }

    fn points(&self, number: u8, handle: u32, point: u64) -> u64 {
        let (handles, mut points) = ([handle], [point]);
        let array = SyncobjTimelineArray {
            handles: handles.as_ptr().expose_provenance() as u64,
            points: points.as_mut_ptr().expose_provenance() as u64,
            count: 1,
            flags: 0,
        };
        self.call(number, array).unwrap();
        points[0]
    }
}

const NEVER: u64 = i64::MAX as u64;
const COMPUTE: u32 = 1;

/// `WRITE_DATA` of a word.
fn write_data(address: u64, value: u32) -> Vec<u32> {
    let [low, high] = [address & 0xffff_ffff, address >> 32].map(|half| u32::try_from(half).unwrap());
    vec![3 << 30 | 3 << 16 | 0x37 << 8, 5 << 8, low, high, value]
}

/// `WAIT_REG_MEM` until a word is 1.
fn wait_for_one(address: u64) -> Vec<u32> {
    let [low, high] = [address & 0xffff_ffff, address >> 32].map(|half| u32::try_from(half).unwrap());
    vec![3 << 30 | 5 << 16 | 0x3c << 8, 3 | 1 << 4, low, high, 1, u32::MAX, 4]
}

#[test]
fn addresses_are_mapped_replaced_and_unmapped() {
    let node = Node::open();
    let (first, second, at) = (node.object(0x4000), node.object(0x4000), node.address());
    node.map(VA_MAP, first, VA_WRITEABLE, [at, 0, 0x4000]).unwrap();
    node.write(at + 0x1000, &[1]);
    assert_eq!(node.map(VA_MAP, second, VA_WRITEABLE, [at + 0x3000, 0, 0x1000]), Err(Errno::INVAL), "mapped already");
    node.map(VA_REPLACE, second, 0, [at + 0x1000, 0x2000, 0x1000]).unwrap();
    assert_eq!(node.read(at + 0x1000), 0, "the second object");
    assert!(node.emulation.memory.write_u32(0, at + 0x1000, 1).is_err(), "it is mapped for reading");
    node.map(VA_REPLACE, 0, VA_PRT, [at + 0x2000, 0, 0x1000]).unwrap();
    node.write(at + 0x2000, &[7]);
    assert_eq!(node.read(at + 0x2000), 0, "there is no memory");
    assert_eq!(node.map(VA_UNMAP, first, 0, [at + 0x1000, 0, 0x1000]), Err(Errno::INVAL), "the second object's");
    node.map(VA_UNMAP, second, 0, [at + 0x1000, 0, 0x1000]).unwrap();
    assert!(node.emulation.memory.read_u32(0, at + 0x1000).is_err());
    node.map(VA_CLEAR, 0, 0, [at, 0, 0x4000]).unwrap();
    assert!(node.emulation.memory.atomic_u32(0, at, Access::Read, |_| ()).is_err());
    for wrong in [[0x1000, 0, 0x1000], [at | 1, 0, 0x1000], [1 << 47, 0, 0x1000], [at, 0x4000, 0x1000], [at, 0, 0]] {
        assert_eq!(node.map(VA_MAP, first, 0, wrong), Err(Errno::INVAL), "{wrong:x?}");
    }
}

#[test]
fn a_handle_that_is_closed_unmaps_its_addresses() {
    let node = Node::open();
    let (object, at) = (node.object(0x1000), node.address());
    node.map(VA_MAP, object, VA_WRITEABLE, [at, 0, 0x1000]).unwrap();
    node.call(number::GEM_CLOSE, GemClose { handle: object, pad: 0 }).unwrap();
    assert!(node.emulation.memory.read_u32(0, at).is_err());
    assert_eq!(node.map(VA_MAP, object, 0, [at, 0, 0x1000]), Err(Errno::NOENT));
}

#[test]
fn metadata_travels_with_a_dma_buf() {
    let (exporter, importer) = (Node::open(), Node::open());
    let object = exporter.object(0x3000);
    let set = GemMetadata {
        handle: object,
        operation: METADATA_SET,
        tiling: 26,
        bytes: 8,
        data: [[5; 32]; 2],
        ..Default::default()
    };
    exporter.call(number::GEM_METADATA, set).unwrap();
    let prime = PrimeHandle { handle: object, flags: 0, descriptor: -1 };
    let exported = exporter.call(number::PRIME_HANDLE_TO_FD, prime).unwrap();
    let imported = importer.call(number::PRIME_FD_TO_HANDLE, PrimeHandle { handle: 0, ..exported }).unwrap();
    let get = GemMetadata { handle: imported.handle, operation: METADATA_GET, ..Default::default() };
    let found = importer.call(number::GEM_METADATA, get).unwrap();
    assert_eq!((found.tiling, found.bytes, found.data), (26, 8, [[5; 32]; 2]));
    let mut info = CreateInfo::default();
    let value = (&raw mut info).expose_provenance() as u64;
    importer.call(number::GEM_OP, GemOp { handle: imported.handle, operation: 0, value }).unwrap();
    assert_eq!((info.size, info.domains), (0x3000, DOMAIN_VRAM));
    assert_eq!(crate::memory::dmabuf::exported_size(passed(exported.descriptor).unwrap()), Some(0x3000));
    rustix::io::fcntl_getfd(passed(exported.descriptor).unwrap()).unwrap();
}

#[test]
fn submissions_run_in_order_and_after_their_dependencies() {
    let node = Node::open();
    let (context, object, at) = (node.context(), node.object(0x1000), node.address());
    node.map(VA_MAP, object, VA_WRITEABLE, [at, 0, 0x1000]).unwrap();
    let gate = node.syncobj();
    let done = node.syncobj();
    let point = |handle, point| vec![handle, 0, point, 0];
    node.points(number::SYNCOBJ_TIMELINE_SIGNAL, gate, 1);
    // The first waits for the host within its commands, the second for the first.
    let first = [wait_for_one(at), write_data(at + 4, 2)].concat();
    let user_fence = (CHUNK_FENCE, vec![object, 64]);
    let chunks = [(CHUNK_TIMELINE_WAIT, point(gate, 1)), (CHUNK_TIMELINE_SIGNAL, point(done, 5)), user_fence];
    let one = node.submit(context, COMPUTE, &first, &chunks).unwrap();
    let wait = [(CHUNK_TIMELINE_WAIT, point(done, 5)), (CHUNK_SYNCOBJ_OUT, vec![gate])];
    let copy = [3 << 30 | 4 << 16 | 0x40 << 8, 1 | 5 << 8];
    let address = |at: u64| [at & 0xffff_ffff, at >> 32].map(|half| u32::try_from(half).unwrap());
    let second = [&copy[..], &address(at + 4), &address(at + 8)].concat();
    let two = node.submit(context, 0, &second, &wait).unwrap();
    assert_eq!((one, two), (1, 1), "each ring counts");
    assert_eq!(node.wait(context, COMPUTE, one, 0), Ok(false));
    assert_eq!(node.wait_syncobj(done, 5, 0, 0), Err(Errno::TIME));
    assert_eq!(node.wait_syncobj(done, 5, WAIT_AVAILABLE, 0), Ok(()), "it is submitted");
    assert_eq!(node.wait_syncobj(done, 6, 0, 0), Err(Errno::INVAL), "it is not submitted");
    let idle = |timeout| node.call(number::GEM_WAIT_IDLE, GemWaitIdle { words: [object.into(), timeout] });
    assert_eq!((node.points(number::SYNCOBJ_QUERY, done, 9), idle(0).unwrap().words[0]), (0, 0), "not in a list");
    node.write(at, &[1]);
    assert_eq!(node.wait(context, 0, two, NEVER), Ok(true));
    assert_eq!((node.read(at + 8), node.read(at + 64)), (2, 1), "the copy, and the fence in memory");
    assert_eq!(node.points(number::SYNCOBJ_QUERY, done, 0), 5);
    assert_eq!(node.wait_syncobj(gate, 0, 0, 0), Ok(()), "the binary fence replaced the timeline");
    assert_eq!(node.wait(context, COMPUTE, 2, 0), Err(Errno::INVAL), "there is no second submission");
}

/// What a submission had changed before it failed does not stay pending.
#[test]
fn waits_for_a_submission_that_was_not_taken_end() {
    let node = Node::open();
    let (context, object, at) = (node.context(), node.object(0x1000), node.address());
    node.map(VA_MAP, object, VA_WRITEABLE, [at, 0, 0x1000]).unwrap();
    let (other, full) = (node.syncobj(), node.syncobj());
    // An exported timeline has room for a fixed number of points.
    let export = SyncobjHandle { handle: full, flags: 0, descriptor: -1, pad: 0 };
    node.call(number::SYNCOBJ_HANDLE_TO_FD, export).unwrap();
    node.submit(context, COMPUTE, &wait_for_one(at), &[]).unwrap();
    let nothing = write_data(at + 4, 2);
    let signals = |point| [(CHUNK_SYNCOBJ_OUT, vec![other]), (CHUNK_TIMELINE_SIGNAL, vec![full, 0, point, 0])];
    let error = (1..5000).find_map(|point| node.submit(context, COMPUTE, &nothing, &signals(point)).err());
    assert_eq!(error, Some(Errno::NOMEM));
    assert_eq!(node.wait_syncobj(other, 0, 0, 0), Ok(()), "nothing will signal it");
    node.write(at, &[1]);
}

#[test]
fn a_draw_makes_its_context_guilty_and_no_other() {
    let node = Node::open();
    let (context, other, signal) = (node.context(), node.context(), node.syncobj());
    let draw = [3 << 30 | 1 << 16 | 0x2d << 8, 3, 2];
    let sequence = node.submit(context, 0, &draw, &[(CHUNK_SYNCOBJ_OUT, vec![signal])]).unwrap();
    assert_eq!(node.wait(context, 0, sequence, NEVER), Err(Errno::CANCELED), "the fence has an error");
    assert_eq!(node.wait_syncobj(signal, 0, 0, 0), Ok(()), "and is signalled");
    assert_eq!(node.submit(context, COMPUTE, &[0xffff_1000], &[]), Err(Errno::CANCELED));
    let query = |operation, context| {
        node.call(number::CTX, ContextOperation { words: [operation, 0, context, 0] }).unwrap().words
    };
    assert_eq!(query(CONTEXT_QUERY, context), [0, 0, 1, GUILTY_RESET]);
    assert_eq!(query(CONTEXT_QUERY, context), [0, 0, 1, NO_RESET], "it is reported once");
    assert_eq!(query(CONTEXT_QUERY_2, context)[0], QUERY_2_RESET | QUERY_2_GUILTY);
    assert_eq!(query(CONTEXT_QUERY_2, other)[0], 0);
    let sequence = node.submit(other, 0, &[0xffff_1000], &[]).unwrap();
    assert_eq!(node.wait(other, 0, sequence, NEVER), Ok(true));
}

#[test]
fn a_fence_goes_through_a_sync_file() {
    let node = Node::open();
    let (context, object, at) = (node.context(), node.object(0x1000), node.address());
    node.map(VA_MAP, object, VA_WRITEABLE, [at, 0, 0x1000]).unwrap();
    let (from, to) = (node.syncobj(), node.syncobj());
    let handle = |handle, descriptor| SyncobjHandle { handle, flags: SYNCOBJ_SYNC_FILE, descriptor, pad: 0 };
    assert_eq!(node.call(number::SYNCOBJ_HANDLE_TO_FD, handle(from, -1)), Err(Errno::INVAL), "it has no fence");
    node.submit(context, COMPUTE, &wait_for_one(at), &[(CHUNK_SYNCOBJ_OUT, vec![from])]).unwrap();
    let file = node.call(number::SYNCOBJ_HANDLE_TO_FD, handle(from, -1)).unwrap().descriptor;
    node.call(number::SYNCOBJ_FD_TO_HANDLE, handle(to, file)).unwrap();
    assert_eq!(node.wait_syncobj(to, 0, 0, 0), Err(Errno::TIME));
    node.write(at, &[1]);
    assert_eq!(node.wait_syncobj(to, 0, 0, i64::MAX), Ok(()));
    let transfer = SyncobjTransfer { from: to, to: from, to_point: 3, ..Default::default() };
    node.call(number::SYNCOBJ_TRANSFER, transfer).unwrap();
    assert_eq!(node.points(number::SYNCOBJ_QUERY, from, 0), 3);
}

#[test]
fn a_wait_for_a_point_that_is_not_submitted_ends_with_its_submission() {
    let (node, other) = (Node::open(), Node::open());
    let timeline = node.syncobj();
    assert_eq!(node.wait_syncobj(timeline, 2, WAIT_ALL, 0), Err(Errno::INVAL));
    let export = SyncobjHandle { handle: timeline, flags: 0, descriptor: -1, pad: 0 };
    let file = node.call(number::SYNCOBJ_HANDLE_TO_FD, export).unwrap();
    let shared = other.call(number::SYNCOBJ_FD_TO_HANDLE, SyncobjHandle { handle: 0, ..file }).unwrap().handle;
    let ended = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| other.wait_syncobj(shared, 2, WAIT_FOR_SUBMIT, i64::MAX));
        node.points(number::SYNCOBJ_TIMELINE_SIGNAL, timeline, 1);
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waiting.is_finished());
        node.points(number::SYNCOBJ_TIMELINE_SIGNAL, timeline, 3);
        waiting.join().unwrap()
    });
    assert_eq!((ended, other.points(number::SYNCOBJ_QUERY, shared, 0)), (Ok(()), 3));
}

#[test]
fn an_eventfd_counts_a_signal_or_a_submission() {
    let node = Node::open();
    let (context, object, at) = (node.context(), node.object(0x1000), node.address());
    node.map(VA_MAP, object, VA_WRITEABLE, [at, 0, 0x1000]).unwrap();
    let event = || rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
    let [signalled, submitted, never] = [event(), event(), event()];
    let ask = |handle, point, flags, file: i32| {
        let value = SyncobjEventfd { handle, flags, point, descriptor: file, pad: 0 };
        node.call(number::SYNCOBJ_EVENTFD, value).map(drop)
    };
    let count = |event: &OwnedFd| {
        let mut bytes = [0; 8];
        rustix::io::read(event, &mut bytes).map(|_| u64::from_ne_bytes(bytes))
    };
    let wait = |event: &OwnedFd| {
        let mut files = [rustix::event::PollFd::new(event, rustix::event::PollFlags::IN)];
        let limit = rustix::event::Timespec { tv_sec: 10, tv_nsec: 0 };
        rustix::event::poll(&mut files, Some(&limit)).unwrap();
        count(event)
    };
    let (timeline, dropped) = (node.syncobj(), node.syncobj());
    ask(timeline, 2, 0, signalled.as_raw_fd()).unwrap();
    ask(timeline, 2, WAIT_AVAILABLE, submitted.as_raw_fd()).unwrap();
    ask(dropped, 0, 0, never.as_raw_fd()).unwrap();
    node.points(number::SYNCOBJ_TIMELINE_SIGNAL, timeline, 1);
    let signal = [(CHUNK_TIMELINE_SIGNAL, vec![timeline, 0, 2, 0])];
    node.submit(context, COMPUTE, &wait_for_one(at), &signal).unwrap();
    assert_eq!((wait(&submitted), count(&signalled)), (Ok(1), Err(Errno::AGAIN)), "submitted, not signalled");
    node.write(at, &[1]);
    assert_eq!(wait(&signalled), Ok(1));
    ask(timeline, 1, 0, signalled.as_raw_fd()).unwrap();
    assert_eq!((count(&signalled), count(&submitted)), (Ok(1), Err(Errno::AGAIN)), "a signalled point counts at once");
    node.call(number::SYNCOBJ_DESTROY, SyncobjDestroy { handle: dropped, pad: 0 }).unwrap();
    assert_eq!(count(&never), Err(Errno::AGAIN));
    let file = std::fs::File::open("/proc/self/exe").unwrap();
    for (handle, flags, file, error) in [
        (timeline, WAIT_ALL, never.as_raw_fd(), Errno::INVAL),
        (dropped, 0, never.as_raw_fd(), Errno::NOENT),
        (timeline, 0, file.as_raw_fd(), Errno::INVAL),
        (timeline, 0, -1, Errno::BADF),
    ] {
        assert_eq!(ask(handle, 1, flags, file), Err(error), "{handle} {flags} {file}");
    }
}
