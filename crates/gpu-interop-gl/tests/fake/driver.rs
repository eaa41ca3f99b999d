//! Functions of a fake OpenGL driver, which tracks live names, the owner of each descriptor, and the calls.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};

pub(crate) use crate::state::*;

/// Size of the memory that the tests import, bytes.
pub(crate) const SIZE: u64 = 1 << 20;

/// Closes a descriptor that the driver owns.
#[cfg(unix)]
fn close(fd: c_int) {
    use std::os::fd::{FromRawFd, OwnedFd};
    // SAFETY: the driver owns this descriptor since its import.
    drop(unsafe { OwnedFd::from_raw_fd(fd) });
}

#[cfg(not(unix))]
fn close(_fd: c_int) {}

/// Stores the text for the life of the thread.
fn text(text: &str) -> *const c_char {
    thread_local!(static TEXTS: RefCell<BTreeSet<CString>> = RefCell::default());
    let text = CString::new(text).expect("no NUL");
    TEXTS.with(|texts| {
        let mut texts = texts.borrow_mut();
        texts.insert(text.clone());
        texts.get(&text).expect("inserted").as_ptr()
    })
}

macro_rules! functions {
    ($( $symbol:ident ($($name:ident: $ty:ty),*) $(-> $result:ty)? $body:block )+) => {
        $( #[allow(non_snake_case)] unsafe extern "system" fn $symbol($($name: $ty),*) $(-> $result)? $body )+

        /// The loader function.
        pub(crate) fn address(name: &CStr) -> *const c_void {
            let name = name.to_str().expect("a name");
            if with(|state| state.missing.contains(&name)) {
                return std::ptr::null();
            }
            match name {
                $( stringify!($symbol) => $symbol as *const c_void, )+
                _ => std::ptr::null(),
            }
        }
    };
}

/// Creates `count` objects in a table. Writes 0 for each if the call is set to fail.
fn created<T: Default>(
    call: &'static str,
    (count, names): (c_int, *mut c_uint),
    table: impl Fn(&mut State) -> &mut BTreeMap<c_uint, T>,
) {
    with(|state| {
        for index in 0..usize::try_from(count).expect("a count") {
            let name = if state.called(call) { state.name() } else { 0 };
            if name != 0 {
                table(state).insert(name, T::default());
            }
            // SAFETY: the library passes room for `count` names.
            unsafe { *names.add(index) = name };
        }
    });
}

fn list(count: c_uint, names: *const c_uint) -> Vec<c_uint> {
    // SAFETY: the library passes `count` entries.
    (0..count as usize).map(|index| unsafe { *names.add(index) }).collect()
}

fn deleted(name: &'static str, names: *const c_uint, remove: impl FnOnce(&mut State, c_uint) -> bool) {
    with(|state| {
        assert!(state.current, "{name} without a context");
        state.called(name);
        // SAFETY: the library deletes one name per call.
        let number = unsafe { *names };
        assert!(remove(state, number), "{name} of {number}, which is not live");
    });
}

functions! {
    glGetError() -> c_uint {
        with(|state| if state.pending.is_empty() { 0 } else { state.pending.remove(0) })
    }
    glGetString(name: c_uint) -> *const c_char {
        with(|state| match name {
            _ if !state.current => std::ptr::null(),
            0x1F02 => text(&state.version),
            _ => text("fake"),
        })
    }
    glGetStringi(_name: c_uint, index: c_uint) -> *const c_char {
        with(|state| text(&state.extensions[index as usize]))
    }
    glGetIntegerv(name: c_uint, value: *mut c_int) {
        let found = with(|state| match name {
            0x821D => c_int::try_from(state.extensions.len()).expect("few"),
            0x821E => state.flags,
            0x9596 => c_int::try_from(state.uuids.len()).expect("few"),
            0x959A => 1,
            // Bindings, by query.
            other => state.bound.get(&other).copied().unwrap_or(0).cast_signed(),
        });
        // SAFETY: the library passes space for one value.
        unsafe { *value = found };
    }
    glFlush() { with(|state| _ = state.called("glFlush")); }
    glGenBuffers(count: c_int, names: *mut c_uint) {
        created("glGenBuffers", (count, names), |state| &mut state.buffers);
    }
    glCreateBuffers(count: c_int, names: *mut c_uint) {
        created("glCreateBuffers", (count, names), |state| &mut state.buffers);
    }
    glBindBuffer(target: c_uint, name: c_uint) { with(|state| _ = state.bound.insert(target, name)); }
    glDeleteBuffers(_count: c_int, names: *const c_uint) {
        deleted("glDeleteBuffers", names, |state, name| state.buffers.remove(&name).is_some());
    }
    glGenTextures(count: c_int, names: *mut c_uint) {
        created("glGenTextures", (count, names), |state| &mut state.textures);
    }
    glCreateTextures(target: c_uint, count: c_int, names: *mut c_uint) {
        created("glCreateTextures", (count, names), |state| &mut state.textures);
        for name in list(count.cast_unsigned(), names) {
            with(|state| if let Some(store) = state.textures.get_mut(&name) { store.target = target; });
        }
    }
    glBindTexture(target: c_uint, name: c_uint) {
        on("glBindTexture", |state| {
            let Some(query) = binding(state, target) else { return state.error(INVALID_ENUM) };
            if let Some(store) = state.textures.get_mut(&name) { store.target = target; }
            state.bound.insert(query, name);
        });
    }
    glDeleteTextures(_count: c_int, names: *const c_uint) {
        deleted("glDeleteTextures", names, |state, name| state.textures.remove(&name).is_some());
    }
    glTexParameteri(target: c_uint, name: c_uint, value: c_int) {
        on("glTexParameteri", |state| {
            match bound_texture(state, target) {
                Some(texture) => drop(texture.parameters.insert(name, value)),
                None => state.error(INVALID_OPERATION),
            }
        });
    }
    glTextureParameteri(texture: c_uint, name: c_uint, value: c_int) {
        on("glTextureParameteri", |state| _ = state.texture(texture).parameters.insert(name, value));
    }
    glGetUnsignedBytevEXT(name: c_uint, bytes: *mut u8) {
        let (value, length) = if name == 0x9599 { (9, 8) } else { (2, 16) };
        // SAFETY: the library passes space for a LUID or a UUID.
        unsafe { std::slice::from_raw_parts_mut(bytes, length).fill(value) };
    }
    glGetUnsignedBytei_vEXT(_name: c_uint, index: c_uint, bytes: *mut u8) {
        let uuid = with(|state| state.uuids[index as usize]);
        // SAFETY: the library passes space for a UUID.
        unsafe { std::slice::from_raw_parts_mut(bytes, 16) }.copy_from_slice(&uuid);
    }
    glCreateMemoryObjectsEXT(count: c_int, names: *mut c_uint) {
        created("glCreateMemoryObjectsEXT", (count, names), |state| &mut state.memory);
    }
    glDeleteMemoryObjectsEXT(_count: c_int, names: *const c_uint) {
        deleted("glDeleteMemoryObjectsEXT", names, |state, name| match state.memory.remove(&name) {
            Some(Memory { imported: Some((_, 0x9586, fd)), .. }) => { close(fd as c_int); true }
            other => other.is_some(),
        });
    }
    glMemoryObjectParameterivEXT(memory: c_uint, name: c_uint, value: *const c_int) {
        on("glMemoryObjectParameterivEXT", |state| {
            assert_eq!(name, 0x9581);
            let memory = state.memory(memory);
            assert!(memory.imported.is_none(), "the parameter is set after the import");
            // SAFETY: the parameter has one value.
            memory.dedicated = unsafe { *value } == 1;
        });
    }
    glImportMemoryFdEXT(memory: c_uint, size: u64, ty: c_uint, fd: c_int) {
        with(|state| {
            if !state.called("glImportMemoryFdEXT") {
                if state.closes_rejected { close(fd); }
                return;
            }
            state.memory(memory).imported = Some((size, ty, fd as usize));
        });
    }
    glImportMemoryWin32HandleEXT(memory: c_uint, size: u64, ty: c_uint, handle: *mut c_void) {
        on("glImportMemoryWin32HandleEXT", |state| state.memory(memory).imported = Some((size, ty, handle.addr())));
    }
    glImportMemoryWin32NameEXT(memory: c_uint, size: u64, ty: c_uint, name: *const c_void) {
        on("glImportMemoryWin32NameEXT", |state| {
            let memory = state.memory(memory);
            memory.imported = Some((size, ty, 0));
            memory.name = utf16(name);
        });
    }
    glBufferStorageMemEXT(target: c_uint, size: isize, memory: c_uint, offset: u64) {
        with(|state| {
            let buffer = state.bound[&target];
            buffer_stored(state, "glBufferStorageMemEXT", buffer, size, memory, offset);
        });
    }
    glNamedBufferStorageMemEXT(buffer: c_uint, size: isize, memory: c_uint, offset: u64) {
        with(|state| buffer_stored(state, "glNamedBufferStorageMemEXT", buffer, size, memory, offset));
    }
    glTexStorageMem1DEXT(t: c_uint, levels: c_int, format: c_uint, w: c_int, memory: c_uint, offset: u64) {
        with(|state| bound_stored(state, "glTexStorageMem1DEXT", (t, &[0x0DE0]), &[levels, w], format, (memory, offset)));
    }
    glTexStorageMem2DEXT(t: c_uint, levels: c_int, format: c_uint, w: c_int, h: c_int, memory: c_uint, offset: u64) {
        let targets = &[0x0DE1, 0x8C18, 0x8513];
        with(|state| bound_stored(state, "glTexStorageMem2DEXT", (t, targets), &[levels, w, h], format, (memory, offset)));
    }
    glTexStorageMem3DEXT(
        t: c_uint, levels: c_int, format: c_uint, w: c_int, h: c_int, d: c_int, memory: c_uint, offset: u64
    ) {
        let targets = &[0x806F, 0x8C1A, 0x9009];
        with(|state| bound_stored(state, "glTexStorageMem3DEXT", (t, targets), &[levels, w, h, d], format, (memory, offset)));
    }
    glTextureStorageMem1DEXT(texture: c_uint, levels: c_int, format: c_uint, w: c_int, memory: c_uint, offset: u64) {
        with(|state| stored(state, "glTextureStorageMem1DEXT", texture, &[levels, w], format, (memory, offset)));
    }
    glTextureStorageMem2DEXT(
        texture: c_uint, levels: c_int, format: c_uint, w: c_int, h: c_int, memory: c_uint, offset: u64
    ) {
        with(|state| stored(state, "glTextureStorageMem2DEXT", texture, &[levels, w, h], format, (memory, offset)));
    }
    glTextureStorageMem3DEXT(
        texture: c_uint, levels: c_int, format: c_uint, w: c_int, h: c_int, d: c_int, memory: c_uint, offset: u64
    ) {
        with(|state| stored(state, "glTextureStorageMem3DEXT", texture, &[levels, w, h, d], format, (memory, offset)));
    }
    glGenSemaphoresEXT(count: c_int, names: *mut c_uint) {
        created("glGenSemaphoresEXT", (count, names), |state| &mut state.semaphores);
    }
    glCreateSemaphoresNV(count: c_int, names: *mut c_uint) {
        created("glCreateSemaphoresNV", (count, names), |state| &mut state.semaphores);
    }
    glSemaphoreParameterivNV(semaphore: c_uint, name: c_uint, value: *const c_int) {
        on("glSemaphoreParameterivNV", |state| {
            // SAFETY: the parameter has one value.
            assert_eq!((name, unsafe { *value }), (0x95B3, 0x95B5));
            state.semaphore(semaphore).timeline = true;
        });
    }
    glDeleteSemaphoresEXT(_count: c_int, names: *const c_uint) {
        deleted("glDeleteSemaphoresEXT", names, |state, name| match state.semaphores.remove(&name) {
            Some(Semaphore { imported: Some((0x9586, fd)), .. }) => { close(fd as c_int); true }
            other => other.is_some(),
        });
    }
    glSemaphoreParameterui64vEXT(semaphore: c_uint, name: c_uint, value: *const u64) {
        on("glSemaphoreParameterui64vEXT", |state| {
            assert_eq!(name, 0x9595);
            // SAFETY: the parameter has one value.
            state.semaphore(semaphore).value = unsafe { *value };
        });
    }
    glImportSemaphoreFdEXT(semaphore: c_uint, ty: c_uint, fd: c_int) {
        with(|state| {
            if !state.called("glImportSemaphoreFdEXT") {
                if state.closes_rejected { close(fd); }
                return;
            }
            state.semaphore(semaphore).imported = Some((ty, fd as usize));
        });
    }
    glImportSemaphoreWin32HandleEXT(semaphore: c_uint, ty: c_uint, handle: *mut c_void) {
        on("glImportSemaphoreWin32HandleEXT", |state| state.semaphore(semaphore).imported = Some((ty, handle.addr())));
    }
    glImportSemaphoreWin32NameEXT(semaphore: c_uint, ty: c_uint, name: *const c_void) {
        on("glImportSemaphoreWin32NameEXT", |state| {
            let length = utf16(name).len();
            state.semaphore(semaphore).imported = Some((ty, length));
        });
    }
    glWaitSemaphoreEXT(s: c_uint, nb: c_uint, b: *const c_uint, nt: c_uint, t: *const c_uint, l: *const c_uint) {
        with(|state| {
            assert!(state.semaphores[&s].imported.is_some(), "a wait without an import");
            if state.called("glWaitSemaphoreEXT") { state.barriers = (list(nb, b), list(nt, t), list(nt, l)); }
        });
    }
    glSignalSemaphoreEXT(s: c_uint, nb: c_uint, b: *const c_uint, nt: c_uint, t: *const c_uint, l: *const c_uint) {
        with(|state| {
            assert!(state.semaphores[&s].imported.is_some(), "a signal without an import");
            if state.called("glSignalSemaphoreEXT") { state.barriers = (list(nb, b), list(nt, t), list(nt, l)); }
        });
    }
}

/// Reads UTF-16 up to its NUL.
fn utf16(name: *const c_void) -> Vec<u16> {
    let name = name.cast::<u16>();
    // SAFETY: the library passes NUL-terminated UTF-16.
    (0..).map(|index| unsafe { *name.add(index) }).take_while(|unit| *unit != 0).collect()
}
