//! External memory.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::ptr::with_exposed_provenance_mut as to;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cubecl_hip_sys as hip;
use libloading::os::unix::Library;

use crate::hip_calls::table::{
    BufferDesc, Hip, INVALID_VALUE, MemoryDesc, NOT_READY, NOT_SUPPORTED, OUT_OF_MEMORY, SUCCESS, call, calls, made,
};

fn desc(kind: u32, fd: c_int, size: u64, flags: u32) -> MemoryDesc {
    let nothing =
        hip::hipExternalMemoryHandleDesc_st__bindgen_ty_1__bindgen_ty_1 { handle: ptr::null_mut(), name: ptr::null() };
    let mut handle = hip::hipExternalMemoryHandleDesc_st__bindgen_ty_1 { win32: nothing };
    handle.fd = fd;
    MemoryDesc { type_: kind, handle, size, flags, reserved: [0; 16] }
}

fn range(offset: u64, size: u64, flags: u32) -> BufferDesc {
    BufferDesc { offset, size, flags, reserved: [0; 16] }
}

fn import(hip: &Hip, desc: MemoryDesc) -> Result<usize, u32> {
    let mut memory = 0;
    match call!(hip.hipImportExternalMemory(&raw mut memory, &raw const desc)) {
        SUCCESS => Ok(memory),
        code => Err(code),
    }
}

fn map(hip: &Hip, memory: usize, range: BufferDesc) -> Result<usize, u32> {
    let mut pointer = 0;
    match call!(hip.hipExternalMemoryGetMappedBuffer(&raw mut pointer, memory, &raw const range)) {
        SUCCESS => Ok(pointer),
        code => Err(code),
    }
}

fn open_descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("a list").count()
}

fn is_open(fd: &OwnedFd) -> bool {
    rustix::io::fcntl_getfd(fd).is_ok()
}

pub(crate) fn imports(hip: &Hip) {
    let (fd, size) = hip.export();
    let number = fd.as_raw_fd();
    let cycle = || {
        // On Linux every kind is a descriptor, except NvSciBuf.
        for kind in 1..=7 {
            for flags in [0, 1] {
                let memory = import(hip, desc(kind, number, size, flags)).expect("imports");
                assert_eq!(call!(hip.hipDestroyExternalMemory(memory)), SUCCESS);
                if hip.is_on_cuda() {
                    assert_eq!(call!(hip.hipDestroyExternalMemory(memory)), INVALID_VALUE, "ended already");
                }
            }
        }
        for wrong in [
            desc(0, number, size, 0),
            desc(8, number, size, 0),
            desc(9, number, size, 0),
            desc(1, number, 0, 0),
            desc(1, number, size, 2),
        ] {
            assert_eq!(import(hip, wrong), Err(INVALID_VALUE));
        }
        for nothing in [-1, 9999] {
            assert_eq!(import(hip, desc(1, nothing, size, 0)), Err(OUT_OF_MEMORY));
        }
    };
    cycle();
    let before = open_descriptors();
    (0..20).for_each(|_| cycle());
    assert_eq!(open_descriptors(), before);
    assert!(is_open(&fd));
    let right = desc(1, number, size, 0);
    assert_eq!(call!(hip.hipImportExternalMemory(ptr::null_mut(), &raw const right)), INVALID_VALUE);
    assert_eq!(call!(hip.hipImportExternalMemory(&mut 0, ptr::null())), INVALID_VALUE);
    assert_eq!(call!(hip.hipDestroyExternalMemory(0)), INVALID_VALUE);
}

/// Descriptors that a driver rejects: CUDA closes some of them, HIP none.
pub(crate) fn refused_imports(hip: &Hip) {
    let null = || OwnedFd::from(std::fs::File::open("/dev/null").expect("a file"));
    let folder = || OwnedFd::from(std::fs::File::open("/").expect("a folder"));
    let pipe = || OwnedFd::from(std::io::pipe().expect("a pipe").0);
    let cycle = || {
        for fd in [null(), folder(), pipe()] {
            assert_eq!(import(hip, desc(1, fd.as_raw_fd(), 4096, 0)), Err(OUT_OF_MEMORY), "{fd:?}");
            assert!(is_open(&fd), "{fd:?}");
        }
    };
    cycle();
    let before = open_descriptors();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| cycle()));
        }
    });
    assert_eq!(open_descriptors(), before);
}

pub(crate) fn mappings(hip: &Hip) {
    let (fd, size) = hip.export();
    let memory = import(hip, desc(1, fd.as_raw_fd(), size, 0)).expect("imports");
    for wrong in
        [range(0, size + 1, 0), range(size, 1, 0), range(4096, size, 0), range(u64::MAX, 2, 0), range(0, size, 1)]
    {
        assert_eq!(map(hip, memory, wrong), Err(INVALID_VALUE), "{wrong:?}");
    }
    assert_eq!(map(hip, 0, range(0, size, 0)), Err(INVALID_VALUE));
    assert_eq!(call!(hip.hipExternalMemoryGetMappedBuffer(&mut 0, memory, ptr::null())), INVALID_VALUE);
    let right = range(0, size, 0);
    assert_eq!(call!(hip.hipExternalMemoryGetMappedBuffer(ptr::null_mut(), memory, &raw const right)), INVALID_VALUE);

    // The import's size counts, not the real one.
    let half = import(hip, desc(1, fd.as_raw_fd(), size / 2, 0)).expect("imports");
    assert_eq!(map(hip, half, range(size / 2 - 4096, 8192, 0)), Err(INVALID_VALUE));
    assert_eq!(call!(hip.hipDestroyExternalMemory(half)), SUCCESS);
    drop(fd);

    let whole = map(hip, memory, range(0, size, 0)).expect("maps");
    let part = map(hip, memory, range(8192, 4096, 0)).expect("maps");
    let bytes: Vec<u8> = (0..4096_u32).map(|index| (index * 7 % 251).to_le_bytes()[0]).collect();
    hip.write(part, &bytes);
    assert_eq!(hip.read(whole + 8192, 4096), bytes);
    // The memory lives as long as its mappings.
    assert_eq!(call!(hip.hipDestroyExternalMemory(memory)), SUCCESS);
    assert_eq!(hip.read(whole + 8192, 4096), bytes);
    for pointer in [whole, part] {
        assert_eq!(call!(hip.hipFree(pointer)), SUCCESS);
        assert_eq!(call!(hip.hipFree(pointer)), INVALID_VALUE, "freed already");
    }
    let other: usize = made!(hip.hipMalloc(4096));
    assert_eq!(call!(hip.hipFree(other + 4)), INVALID_VALUE, "nothing begins there");
    assert_eq!(call!(hip.hipFree(other)), SUCCESS);
}

/// All addresses are in the only mapping of the import, and each has one entry, however often it was returned.
pub(crate) fn one_entry(hip: &Hip) {
    let (fd, size) = hip.export();
    let memory = import(hip, desc(1, fd.as_raw_fd(), size, 0)).expect("imports");
    let [first, second, part] = [range(0, size, 0), range(0, 4096, 0), range(8192, 4096, 0)]
        .map(|range| map(hip, memory, range).expect("maps"));
    assert_eq!((second, part), (first, first + 8192));
    assert_eq!(call!(hip.hipFree(first)), SUCCESS);
    assert_eq!(call!(hip.hipFree(second)), INVALID_VALUE, "the first has ended both");
    assert_eq!(call!(hip.hipFree(part)), SUCCESS, "another address");
    assert_eq!(call!(hip.hipDestroyExternalMemory(memory)), SUCCESS);
}

/// HIP 5.2 returns the import's first address for every range, and its mappings cannot be freed.
pub(crate) fn ignored_ranges(hip: &Hip) {
    let (fd, size) = hip.export();
    let memory = import(hip, desc(1, fd.as_raw_fd(), size, 0)).expect("imports");
    let whole = map(hip, memory, range(0, size, 0)).expect("maps");
    assert_eq!(map(hip, memory, range(8192, 4096, 0)), Ok(whole));
    hip.write(whole, &[7; 64]);
    assert_eq!(hip.read(whole, 64), [7; 64]);
    assert_eq!(call!(hip.hipFree(whole)), INVALID_VALUE);
    assert_eq!(hip.read(whole, 64), [7; 64]);
    assert_eq!(call!(hip.hipDestroyExternalMemory(memory)), SUCCESS);
}

const GREATER_OR_EQUAL: u32 = 0;
const EQUAL: u32 = 1;

/// A word of memory that both sides use.
fn word(pointer: usize) -> &'static AtomicU64 {
    // SAFETY: allocated, aligned, and freed after the last access.
    unsafe { AtomicU64::from_ptr(to(pointer)) }
}

/// Waits until the stream has read the word.
fn finish(hip: &Hip, stream: usize) {
    let start = Instant::now();
    while call!(hip.hipStreamQuery(stream)) == NOT_READY {
        assert!(start.elapsed() < Duration::from_secs(20), "the stream does not see the word");
        std::thread::yield_now();
    }
    assert_eq!(call!(hip.hipStreamSynchronize(stream)), SUCCESS);
}

/// A wait that the CPU ends, and a write that it observes.
fn ping_pong(hip: &Hip, host: usize, device: usize) {
    let stream = hip.stream();
    word(host).store(0, Ordering::SeqCst);
    for round in 1..100_u64 {
        assert_eq!(call!(hip.hipStreamWaitValue64(stream, device, 2 * round - 1, GREATER_OR_EQUAL, u64::MAX)), SUCCESS);
        assert_eq!(call!(hip.hipStreamWriteValue64(stream, device, 2 * round, 0)), SUCCESS);
        // The first query after new work returns this even if the work has completed.
        assert_eq!(call!(hip.hipStreamQuery(stream)), NOT_READY);
        std::thread::sleep(Duration::from_millis(1));
        assert_eq!(call!(hip.hipStreamQuery(stream)), NOT_READY);
        assert_eq!(word(host).load(Ordering::SeqCst), 2 * round - 2, "the stream did not wait");
        word(host).store(2 * round - 1, Ordering::SeqCst);
        finish(hip, stream);
        assert_eq!(word(host).load(Ordering::SeqCst), 2 * round);
    }
    assert_eq!(call!(hip.hipStreamDestroy(stream)), SUCCESS);
}

pub(crate) fn both_sides(hip: &Hip) {
    for flags in [0, 1, 2, 3, 0x4000_0000] {
        let host: usize = made!(hip.hipHostMalloc(4096, flags));
        let device: usize = made!(hip.hipHostGetDevicePointer(host, 0));
        ping_pong(hip, host, device);
        let bytes: Vec<u8> = (0..4096_u32).map(|index| (index % 253).to_le_bytes()[0]).collect();
        hip.write(device, &bytes);
        // SAFETY: allocated above, and nothing writes to it now.
        assert_eq!(unsafe { std::slice::from_raw_parts(to::<u8>(host), 4096) }, bytes);
        assert_eq!(call!(hip.hipHostFree(host)), SUCCESS);
    }
    assert_eq!(call!(hip.hipHostMalloc(&mut 0, 4096, 0xc000_0000)), INVALID_VALUE, "coherent and not");
    assert_eq!(call!(hip.hipHostMalloc(ptr::null_mut(), 4096, 0)), INVALID_VALUE);
    assert_eq!(call!(hip.hipHostGetDevicePointer(&mut 0, 0, 0)), INVALID_VALUE);
}

pub(crate) fn signal_memory(hip: &Hip) {
    const SIGNAL: u32 = cubecl_hip_sys::hipMallocSignalMemory;
    for size in [4, 16, 4096] {
        assert_eq!(call!(hip.hipExtMallocWithFlags(&mut 0, size, SIGNAL)), INVALID_VALUE, "{size}");
    }
    assert_eq!(call!(hip.hipExtMallocWithFlags(&mut 0, 8, 7)), INVALID_VALUE, "no such flag");
    let signal: usize = made!(hip.hipExtMallocWithFlags(8, SIGNAL));
    // Both use the same address.
    ping_pong(hip, signal, signal);

    let stream = hip.stream();
    assert_eq!(call!(hip.hipStreamWaitValue64(stream, 0, 1, EQUAL, u64::MAX)), INVALID_VALUE);
    assert_eq!(call!(hip.hipStreamWaitValue64(stream, signal, 1, 4, u64::MAX)), INVALID_VALUE, "no such condition");
    assert_eq!(call!(hip.hipStreamWriteValue64(stream, 0, 1, 0)), INVALID_VALUE);
    word(signal).store(0xff_0000_0001, Ordering::SeqCst);
    let masked = [
        call!(hip.hipStreamWaitValue64(stream, signal, 1, EQUAL, u64::from(u32::MAX))),
        call!(hip.hipStreamWaitValue32(stream, signal, 1, EQUAL, 0xff)),
    ];
    assert_eq!(masked, [if hip.is_on_cuda() { NOT_SUPPORTED } else { SUCCESS }; 2]);
    finish(hip, stream);
    // The low half.
    assert_eq!(call!(hip.hipStreamWaitValue32(stream, signal, 5, EQUAL, u32::MAX)), SUCCESS);
    // SAFETY: as in `word`.
    unsafe { AtomicU32::from_ptr(to(signal)) }.store(5, Ordering::SeqCst);
    finish(hip, stream);
    assert_eq!(call!(hip.hipStreamDestroy(stream)), SUCCESS);
    assert_eq!(call!(hip.hipFree(signal)), SUCCESS);
}

pub(crate) fn freeing(hip: &Hip) {
    let host: usize = made!(hip.hipHostMalloc(4096, 0));
    let device: usize = made!(hip.hipMalloc(4096));
    let uncached: usize = made!(hip.hipExtMallocWithFlags(4096, cubecl_hip_sys::hipDeviceMallocUncached));
    assert_eq!(call!(hip.hipFree(host)), SUCCESS);
    assert_eq!(call!(hip.hipHostFree(device)), SUCCESS);
    assert_eq!(call!(hip.hipFree(uncached)), SUCCESS);
    for freed in [host, device, uncached, 0x1000] {
        assert_eq!([call!(hip.hipFree(freed)), call!(hip.hipHostFree(freed))], [INVALID_VALUE; 2]);
    }
    assert_eq!([call!(hip.hipFree(0)), call!(hip.hipHostFree(0))], [SUCCESS; 2]);
    assert_eq!(made!(hip.hipMalloc(0)), 0_usize);
    assert_eq!(call!(hip.hipMalloc(ptr::null_mut(), 8)), INVALID_VALUE);
}

/// CUDA has a function for each kind, and crashes on the wrong one.
pub(crate) fn freeing_on_cuda(hip: &Hip) {
    let name = std::env::var_os("GPU_INTEROP_SIM_CUDA_LIBRARY").expect("the library that counts");
    // SAFETY: the library that the other one has loaded.
    let cuda = unsafe { Library::new(name) }.expect("the library");
    freeing(hip);
    let signal: usize = made!(hip.hipExtMallocWithFlags(8, cubecl_hip_sys::hipMallocSignalMemory));
    assert_eq!(call!(hip.hipFree(signal)), SUCCESS);
    let counts =
        [c"cuMemAlloc_v2", c"cuMemFree_v2", c"cuMemHostAlloc", c"cuMemFreeHost"].map(|function| calls(&cuda, function));
    assert_eq!(counts, [2, 2, 2, 2]);
}
