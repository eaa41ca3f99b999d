//! External memory.

use std::ffi::c_int;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;

use cubecl_hip_sys as hip;

use super::table::{BufferDesc, Hip, INVALID_VALUE, MemoryDesc, OUT_OF_MEMORY, SUCCESS, call, made};

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
