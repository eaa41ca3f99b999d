//! External semaphores, which have no effect with HIP on Linux.

use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::ptr;

use super::table::{Hip, INVALID_VALUE, NOT_SUPPORTED, SUCCESS, SemaphoreDesc, SignalParams, WaitParams, call, calls};

pub(crate) fn nothing(hip: &Hip) {
    let fd = rustix::fs::memfd_create("semaphore", rustix::fs::MemfdFlags::CLOEXEC).expect("a file");
    rustix::fs::ftruncate(&fd, 4096).expect("a size");
    // SAFETY: numbers and pointers, for which zeros are valid.
    let mut desc: SemaphoreDesc = unsafe { MaybeUninit::zeroed().assume_init() };
    desc.handle.fd = fd.as_raw_fd();
    let mut semaphore = 0;
    for (kind, code) in
        [(0, INVALID_VALUE), (1, NOT_SUPPORTED), (4, NOT_SUPPORTED), (5, INVALID_VALUE), (9, INVALID_VALUE)]
    {
        desc.type_ = kind;
        assert_eq!(call!(hip.hipImportExternalSemaphore(&raw mut semaphore, &raw const desc)), code, "{kind}");
    }
    assert!(rustix::io::fcntl_getfd(&fd).is_ok());
    assert_eq!(call!(hip.hipImportExternalSemaphore(ptr::null_mut(), &raw const desc)), INVALID_VALUE);

    // What a caller has that does not know: success, and nothing waits.
    // SAFETY: as above.
    let (mut signal, wait): (SignalParams, WaitParams) = unsafe { MaybeUninit::zeroed().assume_init() };
    let stream = hip.stream();
    let semaphores = [0x1000];
    for _ in 0..3 {
        assert_eq!(
            call!(hip.hipSignalExternalSemaphoresAsync(semaphores.as_ptr(), &raw const signal, 1, stream)),
            SUCCESS
        );
        assert_eq!(call!(hip.hipWaitExternalSemaphoresAsync(semaphores.as_ptr(), &raw const wait, 1, stream)), SUCCESS);
    }
    assert_eq!(call!(hip.hipStreamSynchronize(stream)), SUCCESS);
    signal.flags = 1;
    let wrong = call!(hip.hipSignalExternalSemaphoresAsync(semaphores.as_ptr(), &raw const signal, 1, stream));
    assert_eq!(wrong, INVALID_VALUE);
    let none = call!(hip.hipWaitExternalSemaphoresAsync([0].as_ptr(), &raw const wait, 1, stream));
    assert_eq!(none, INVALID_VALUE);
    assert_eq!(call!(hip.hipWaitExternalSemaphoresAsync(ptr::null(), ptr::null(), 1, stream)), INVALID_VALUE);
    assert_eq!(call!(hip.hipDestroyExternalSemaphore(semaphores[0])), SUCCESS);
    assert_eq!(call!(hip.hipDestroyExternalSemaphore(0)), INVALID_VALUE);
    assert_eq!(call!(hip.hipStreamDestroy(stream)), SUCCESS);

    for (function, count) in [
        (c"hipImportExternalSemaphore", 6),
        (c"hipSignalExternalSemaphoresAsync", 4),
        (c"hipWaitExternalSemaphoresAsync", 5),
        (c"hipDestroyExternalSemaphore", 2),
        (c"hipMalloc", 0),
    ] {
        assert_eq!(calls(hip.library, function), count, "{function:?}");
    }
}
