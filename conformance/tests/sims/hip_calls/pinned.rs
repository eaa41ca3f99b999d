//! Memory that the CPU and streams both access without copies, which a bridge between timelines of two APIs uses.

use std::ptr::{self, with_exposed_provenance_mut as to};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use libloading::os::unix::Library;

use super::table::{Hip, INVALID_VALUE, NOT_READY, NOT_SUPPORTED, SUCCESS, call, calls, made};

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
