//! Mapped ranges of imports that are mapped as a whole.
//!
//! Some drivers map a dedicated allocation from its first byte on only. Others know but one mapping of an import: such a
//! driver gives addresses in the one mapping that it made when the memory was imported. It keeps one entry for
//! each address that it gave, so that of two ranges which begin at the same one the first to be freed ends both; or it
//! gives the import's first address whatever range it was asked for. So it is asked for all of an import, once, and
//! what is counted and computed is here. Where mapping again costs memory for good, the mapping stays until the import
//! ends.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use gpu_interop_core::backend::RawMemory;
use gpu_interop_core::{Error, Result};

use crate::functions::DeviceAddress;

/// The imports of a device that are mapped as a whole.
#[derive(Debug, Default)]
pub(crate) struct Imports(Mutex<HashMap<usize, Arc<Import>>>);

#[derive(Debug)]
struct Import {
    size: u64,
    /// Held while the driver maps or frees: between the two it must not be asked for the same address.
    whole: Mutex<Option<Whole>>,
}

/// All of an import, mapped.
#[derive(Debug)]
struct Whole {
    address: DeviceAddress,
    /// How many of its ranges are in use.
    ranges: usize,
}

impl Imports {
    /// Notes an import and its size in bytes.
    pub(crate) fn add(&self, memory: RawMemory, size: u64) {
        lock(&self.0).insert(memory.get(), Arc::new(Import { size, whole: Mutex::default() }));
    }

    /// Forgets an import, if it was noted. Before the driver does, which may give the next one the same handle. Returns the
    /// first address of an import that is still mapped.
    pub(crate) fn remove(&self, memory: RawMemory) -> Option<DeviceAddress> {
        let import = lock(&self.0).remove(&memory.get())?;
        lock(&import.whole).take().map(|whole| whole.address)
    }

    /// The address of the byte at `offset`; `None` if the import was not noted. `map` maps as many bytes as it is told,
    /// from the import's first on, unless a range of it is mapped already.
    pub(crate) fn map(
        &self,
        memory: RawMemory,
        offset: u64,
        map: impl FnOnce(u64) -> Result<DeviceAddress>,
    ) -> Option<Result<DeviceAddress>> {
        let import = self.get(memory)?;
        let mut whole = lock(&import.whole);
        let mapped = match whole.take() {
            Some(Whole { address, ranges }) => Ok(Whole { address, ranges: ranges + 1 }),
            None => map(import.size).map(|address| Whole { address, ranges: 1 }),
        };
        // An import at the end of the address space is the driver's mistake, and no reason to panic.
        Some(mapped.map(|mapped| whole.insert(mapped).address.wrapping_add(offset)))
    }

    /// Ends a range; `None` if the import was not noted. `free` frees all of the import by its first address, if this was
    /// the last range. If that fails, the mapping is given up. Without `free` the mapping stays for the next range, until
    /// [`Imports::remove`].
    pub(crate) fn free(
        &self,
        memory: RawMemory,
        free: Option<impl FnOnce(DeviceAddress) -> Result<()>>,
    ) -> Option<Result<()>> {
        let import = self.get(memory)?;
        let mut whole = lock(&import.whole);
        Some(match (whole.take(), free) {
            (Some(Whole { address, ranges: 1 }), Some(free)) => free(address),
            (Some(Whole { address, ranges: ranges @ 1.. }), _) => {
                *whole = Some(Whole { address, ranges: ranges - 1 });
                Ok(())
            }
            (unused, _) => {
                *whole = unused;
                Err(Error::invalid("free_buffer", "no range of the import is mapped"))
            }
        })
    }

    fn get(&self, memory: RawMemory) -> Option<Arc<Import>> {
        lock(&self.0).get(&memory.get()).cloned()
    }
}

/// What is under these locks is valid at every step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    const MEMORY: RawMemory = RawMemory::new(7);
    const BASE: u64 = 0x7f00_0000_0000;

    const NEVER_FREED: Option<fn(DeviceAddress) -> Result<()>> = None;

    fn imports() -> Imports {
        let imports = Imports::default();
        imports.add(MEMORY, 4096);
        imports
    }

    fn refused(code: &'static str) -> Error {
        Error::invalid("driver", code)
    }

    #[test]
    fn an_import_is_mapped_once_and_freed_after_its_last_range() {
        let imports = imports();
        let calls = RefCell::new(Vec::new());
        let map = |offset| {
            let address = imports.map(MEMORY, offset, |size| {
                calls.borrow_mut().push(("map", size));
                Ok(BASE)
            });
            address.expect("noted").expect("maps") - BASE
        };
        let free = || {
            let freed = imports.free(
                MEMORY,
                Some(|address| {
                    calls.borrow_mut().push(("free", address));
                    Ok(())
                }),
            );
            freed.expect("noted").expect("frees");
        };
        assert_eq!([map(0), map(0), map(64)], [0, 0, 64]);
        assert_eq!(*calls.borrow(), [("map", 4096)]);
        (0..2).for_each(|_| free());
        assert_eq!(map(4095), 4095);
        (0..2).for_each(|_| free());
        assert_eq!(*calls.borrow(), [("map", 4096), ("free", BASE)]);
        // And once more.
        assert_eq!(map(1), 1);
        free();
        assert_eq!(*calls.borrow(), [("map", 4096), ("free", BASE), ("map", 4096), ("free", BASE)]);
    }

    #[test]
    fn a_mapping_that_stays_is_mapped_once_for_all_of_the_import_s_life() {
        let imports = imports();
        let calls = RefCell::new(0);
        for _ in 0..3 {
            let map = |_| {
                *calls.borrow_mut() += 1;
                Ok(BASE)
            };
            assert_eq!(imports.map(MEMORY, 64, map).expect("noted").expect("maps"), BASE + 64);
            imports.free(MEMORY, NEVER_FREED).expect("noted").expect("frees");
        }
        assert_eq!(*calls.borrow(), 1);
        let error = imports.free(MEMORY, NEVER_FREED).expect("noted").expect_err("no range is mapped");
        assert_eq!(error.kind(), gpu_interop_core::ErrorKind::InvalidArgument);
        assert_eq!(imports.remove(MEMORY), Some(BASE), "still mapped");
        assert!(imports.free(MEMORY, NEVER_FREED).is_none());
    }

    #[test]
    fn what_fails_is_not_counted() {
        let imports = imports();
        assert!(imports.map(MEMORY, 0, |_| Err(refused("no mapping"))).is_some_and(|mapped| mapped.is_err()));
        assert!(imports.free(MEMORY, Some(|_| unreachable!("nothing is mapped"))).is_some_and(|freed| freed.is_err()));
        imports.map(MEMORY, 0, |_| Ok(BASE)).expect("noted").expect("maps");
        let error = imports.free(MEMORY, Some(|_| Err(refused("no freeing")))).expect("noted").expect_err("fails");
        assert_eq!(error.operation(), "driver");
        // Given up: the next range has the driver map again.
        let next = imports.map(MEMORY, 8, |_| Ok(BASE + 4096)).expect("noted").expect("maps");
        assert_eq!(next, BASE + 4096 + 8);
    }

    #[test]
    fn an_import_that_was_not_noted_or_has_ended_is_mapped_by_its_ranges() {
        let imports = imports();
        assert_eq!(imports.remove(MEMORY), None);
        assert!(imports.map(MEMORY, 0, |_| unreachable!("there is no import")).is_none());
        assert!(imports.free(MEMORY, Some(|_| unreachable!("there is no import"))).is_none());
    }

    #[test]
    fn the_driver_never_frees_what_another_thread_maps() {
        // As a driver with one entry for each address: mapping notes it, freeing ends it for all.
        let (imports, entry) = (imports(), Mutex::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let map = |_| {
                            assert!(!std::mem::replace(&mut *lock(&entry), true), "mapped twice");
                            Ok(BASE)
                        };
                        imports.map(MEMORY, 0, map).expect("noted").expect("maps");
                        assert!(*lock(&entry), "freed while in use");
                        let free = |_| {
                            assert!(std::mem::replace(&mut *lock(&entry), false), "freed twice");
                            Ok(())
                        };
                        imports.free(MEMORY, Some(free)).expect("noted").expect("frees");
                    }
                });
            }
        });
    }
}
