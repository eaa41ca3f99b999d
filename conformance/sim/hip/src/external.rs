//! External memory, as recorded with AMD's runtimes. An import is mapped as a whole, and all mappings of it are
//! addresses in that mapping.
//!
//! | HIP | a mapping | its end | copies, fills and words at an offset |
//! |---|---|---|---|
//! | before 5.5 | the import's first address, whatever the range | `hipFree` ends the process; it ends with its import | |
//! | 5.5 to 7.1 | an entry for its address, and a reference of the import | `hipFree` | begin at offset 0 |
//! | 7.2 | as before, and one reference too many | `hipFree`, which ends neither | are right |
//! | later | an entry for its address, and a reference of the import | `hipFree` | are right |
//!
//! Each import has an entry as well, which `hipFree` finds at the import's first address once the mapping's entry is
//! removed.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex};

use gpu_interop_sim_abi::hip::generation::{Generation, Handle};
use gpu_interop_sim_abi::hip::version::{Behaviour, Era};
use gpu_interop_sim_abi::lock;
use gpu_interop_sim_device::memory::{IMPORTED, Imported};
use gpu_interop_sim_device::system::ImportHandle;
use gpu_interop_sim_device::{code, entries, memory};

use crate::device::need;
use crate::die_because;
use crate::memory::{Found, FreeFunction};
use crate::{give, streams};

/// An import, by its first address.
#[derive(Debug)]
struct Import {
    memory: Arc<Imported>,
    /// Size in bytes: the importer's value, and the real one.
    size: usize,
    real: usize,
    /// References of the handle and of mappings.
    references: usize,
    /// Number of leaked references.
    lost: usize,
}

static IMPORTS: Mutex<BTreeMap<usize, Import>> = Mutex::new(BTreeMap::new());
/// The imports of mappings, by the mappings' addresses.
static MAPPINGS: Mutex<BTreeMap<usize, usize>> = Mutex::new(BTreeMap::new());

/// The first address of the import that contains an address.
fn own(address: usize) -> Option<usize> {
    let own = lock(&IMPORTS);
    let (base, import) = own.range(..=address).next_back()?;
    (address - base < import.real.max(1)).then_some(*base)
}

/// The memory that copies, fills and words access for an address.
pub(crate) fn find(address: usize) -> Option<Found> {
    let era = Era::now();
    let mapping = match era {
        Era::Early => None,
        _ => lock(&MAPPINGS).range(..=address).next_back().map(|(mapping, base)| (*mapping, *base)),
    };
    let own = lock(&IMPORTS);
    if let Some((mapping, import)) = mapping.and_then(|(mapping, base)| Some((mapping, own.get(&base)?))) {
        let (base, offset) = (import.memory.first(), address - mapping);
        if era < Era::Seven && offset < import.size {
            return Some(Found { address: base + offset, size: import.size, offset, real: import.real });
        }
    }
    let (base, import) = own.range(..=address).next_back()?;
    let offset = address - base;
    match era {
        Era::Early => (offset < import.size).then_some(Found { address, size: import.size, offset, real: import.real }),
        Era::Seven => (offset < import.size.max(import.real)).then_some(Found {
            address,
            size: import.size.max(import.real),
            offset,
            real: import.real,
        }),
        _ if offset < import.real => die_because(
            "memory of an import is used without a mapping: hipFree has ended it, or it is not mapped so far",
        ),
        _ => None,
    }
}

/// `hipFree` and `hipHostFree` of an address that is not an allocation.
pub(crate) fn free(address: usize, function: FreeFunction) -> Result<(), u32> {
    let Some(base) = own(address) else { return Err(code::INVALID_VALUE) };
    if Era::now() == Era::Early {
        streams::drain(None);
        die_because("before HIP 5.5 hipFree of a mapping ends the process");
    }
    code::reject_if(function == FreeFunction::Host)?;
    let mapping = lock(&MAPPINGS).contains_key(&address);
    if !mapping && base != address {
        die_because("hipFree of an address inside a mapping that is not its first");
    }
    // Mappings are not recorded with a device, so the first device applies.
    streams::drain(Some(0));
    if mapping {
        lock(&MAPPINGS).remove(&address);
        if cfg!(windows) || !Behaviour::ExtraReference.now() {
            memory::free(address);
        }
    }
    release(base);
    Ok(())
}

/// Releases a reference of an import.
fn release(base: usize) {
    let mut own = lock(&IMPORTS);
    let Some(import) = own.get_mut(&base) else { return };
    import.references -= 1;
    // On Windows the device's memory stays allocated: PAL opens allocations by handles that do not belong to the
    // process.
    #[cfg(windows)]
    if import.lost > 0 && import.references == import.lost {
        import.references = 0;
        import.memory.lose();
    }
    if import.references > 0 {
        return;
    }
    let import = own.remove(&base);
    drop(own);
    lock(&MAPPINGS).retain(|_, of| *of != base);
    if let Some(import) = import {
        streams::keep(&import.memory);
    }
}

entries! {
    after need;

    fn hipImportExternalMemory(memory: *mut usize, desc: *const c_void) gives memory
        failing |_code| if !desc.is_null() { failed(Generation::now().memory(desc).handle) };
    {
        if memory.is_null() || desc.is_null() {
            if Era::now() == Era::Early {
                die_because("before HIP 5.5 hipImportExternalMemory follows NULL");
            }
            return Err(code::INVALID_VALUE);
        }
        let desc = Generation::now().memory(desc).checked()?;
        // Every failure is reported as "out of memory".
        let imported = given_memory(desc.kind, desc.handle).and_then(Imported::open).ok_or(code::OUT_OF_MEMORY)?;
        let real = usize::try_from(imported.size()).unwrap_or(usize::MAX);
        // The size is not compared with the real one: on Windows PAL does not receive it.
        let imported = Arc::new(imported.sized(desc.size));
        let size = usize::try_from(imported.size()).unwrap_or(usize::MAX);
        let own = Import { memory: imported.clone(), size, real, references: 1, lost: 0 };
        lock(&IMPORTS).insert(imported.first(), own);
        give(memory, IMPORTED.insert(imported))
    }

    fn hipExternalMemoryGetMappedBuffer(pointer: *mut u64, memory: usize, desc: *const c_void) gives pointer {
        code::reject_if(memory == 0)?;
        let era = Era::now();
        let Some(memory) = IMPORTED.get(memory) else { die_because("the external memory does not exist") };
        let base = memory.first();
        if era == Era::Early {
            if pointer.is_null() {
                die_because("before HIP 5.5 hipExternalMemoryGetMappedBuffer follows NULL");
            }
            return give(pointer, base as u64);
        }
        code::reject_if(pointer.is_null() || desc.is_null())?;
        let (offset, size) = Generation::now().buffer(desc)?;
        let end = match era {
            // The sum wraps around.
            Era::Five | Era::Six => offset.wrapping_add(size),
            _ => offset.checked_add(size).ok_or(code::INVALID_VALUE)?,
        };
        code::reject_if(end > memory.size())?;
        let address = base.wrapping_add(usize::try_from(offset).unwrap_or(usize::MAX));
        give(pointer, address as u64)?;
        if let Some(own) = lock(&IMPORTS).get_mut(&base) {
            let lost = usize::from(Behaviour::ExtraReference.now());
            own.references += 1 + lost;
            own.lost += lost;
        }
        lock(&MAPPINGS).insert(address, base);
        memory.note(address);
        Ok(())
    }

    fn hipDestroyExternalMemory(memory: usize) {
        code::reject_if(memory == 0)?;
        let Some(memory) = IMPORTED.remove(memory) else {
            die_because("hipDestroyExternalMemory of invalid or destroyed external memory");
        };
        release(memory.first());
        Ok(())
    }
}

/// The imported handle: the descriptor, for every kind.
///
/// # Safety
/// The import's description is still valid.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn given(_kind: u32, handle: Handle) -> ImportHandle {
    // SAFETY: the caller's promise.
    unsafe { handle.fd() }
}

/// Ends an import with an injected failure.
///
/// # Safety
/// As for [`given`]; the import owns the descriptor.
#[cfg(target_os = "linux")]
pub(crate) unsafe fn failed(handle: Handle) {
    // SAFETY: the caller's promise.
    unsafe { gpu_interop_sim_abi::hip::semaphore::close_if_configured(handle.fd()) };
}

/// The imported handle, by its kind.
///
/// # Safety
/// The import's description is still valid.
#[cfg(windows)]
pub(crate) unsafe fn given(kind: u32, handle: Handle) -> ImportHandle {
    use cubecl_hip_sys as hip;
    const NUMBERS: [u32; 2] = [
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeOpaqueWin32Kmt,
        hip::hipExternalMemoryHandleType_enum_hipExternalMemoryHandleTypeD3D11ResourceKmt,
    ];
    // The number of one kind of KMT semaphore handles is used for memory, and the other is not a semaphore.
    const _: () =
        assert!(hip::hipExternalSemaphoreHandleType_enum_hipExternalSemaphoreHandleTypeOpaqueWin32Kmt == NUMBERS[0]);
    // SAFETY: the caller's promise; on Windows all kinds are of this shape.
    let [object, name] = unsafe { handle.object() };
    if NUMBERS.contains(&kind) {
        ImportHandle::Kmt(object.expose_provenance())
    } else {
        ImportHandle::Object { handle: object.cast_mut(), name }
    }
}

/// As [`given`], for memory: in some versions a name is used if the handle is null.
///
/// # Safety
/// As for [`given`].
#[cfg(windows)]
pub(crate) unsafe fn given_memory(kind: u32, handle: Handle) -> Option<ImportHandle> {
    // SAFETY: the caller's promise.
    match unsafe { given(kind, handle) } {
        ImportHandle::Kmt(_) if Behaviour::NoKmtMemory.now() => None,
        ImportHandle::Object { handle, name } => {
            let by_name = handle.is_null() && Behaviour::MemoryNames.now();
            Some(ImportHandle::Object { handle, name: if by_name { name } else { std::ptr::null() } })
        }
        number @ ImportHandle::Kmt(_) => Some(number),
    }
}

/// As [`given`].
///
/// # Safety
/// As for [`given`].
#[cfg(target_os = "linux")]
#[allow(clippy::unnecessary_wraps, reason = "the other version fails for some kinds")]
pub(crate) unsafe fn given_memory(kind: u32, handle: Handle) -> Option<ImportHandle> {
    // SAFETY: the caller's promise.
    Some(unsafe { given(kind, handle) })
}

/// Ends an import with an injected failure: the caller still owns the handle.
///
/// # Safety
/// No requirements here.
#[cfg(windows)]
pub(crate) unsafe fn failed(_handle: Handle) {}
