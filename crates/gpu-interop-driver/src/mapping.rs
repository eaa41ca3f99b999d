//! Mapped ranges of imports that are mapped as a whole
//! ([`Vendor::MAPS_WHOLE_IMPORTS`](crate::Vendor::MAPS_WHOLE_IMPORTS)).
//!
//! Some drivers map a dedicated allocation only from its first byte. Others have a single mapping per import, made at
//! import: either they keep one entry per returned address, so that freeing one of two ranges with the same first
//! address frees both, or they return the import's first address for every range. For all of these an import is mapped
//! once as a whole; this module counts its ranges and computes their addresses. Where each new mapping leaks memory,
//! the mapping is kept until the import is destroyed.
//!
//! Levels of mapped arrays ([`Vendor::LEVELS_OWNED_SEPARATELY`](crate::Vendor::LEVELS_OWNED_SEPARATELY)): some drivers
//! create a new array for each query of a level. The array keeps the image and its memory alive until it
//! is destroyed. Each level is therefore queried once, and its array is destroyed before the image.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use gpu_interop_core::backend::{RawMemory, RawMipmappedArray};
use gpu_interop_core::sync::lock;
use gpu_interop_core::{Error, Result};

use crate::driver::{Driver, Vendor};
use crate::functions::{DeviceAddress, Handle};

/// Imports of a device that are mapped as a whole.
#[derive(Debug, Default)]
pub(crate) struct Imports(Mutex<HashMap<usize, Arc<Import>>>);

#[derive(Debug)]
struct Import {
    size: u64,
    /// Locked during the driver's map and free calls, which must not run concurrently for one import.
    whole: Mutex<Option<Whole>>,
}

/// Mapping of a whole import.
#[derive(Debug)]
struct Whole {
    address: DeviceAddress,
    /// Number of ranges in use.
    ranges: usize,
}

impl Imports {
    /// Adds an import and its size in bytes.
    pub(crate) fn add(&self, memory: RawMemory, size: u64) {
        lock(&self.0).insert(memory.get(), Arc::new(Import { size, whole: Mutex::default() }));
    }

    /// Removes an import, if it was added. Called before the driver destroys the import and may reuse its handle.
    /// Returns the first address if the import is still mapped.
    pub(crate) fn remove(&self, memory: RawMemory) -> Option<DeviceAddress> {
        let import = lock(&self.0).remove(&memory.get())?;
        lock(&import.whole).take().map(|whole| whole.address)
    }

    /// Returns the address of the byte at `offset`; `None` if the import was not added. `map` maps the given number of
    /// bytes from the import's first byte; it is called unless a range is already mapped.
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
        // Wrapping: an address beyond the address space is a driver bug and must not panic.
        Some(mapped.map(|mapped| whole.insert(mapped).address.wrapping_add(offset)))
    }

    /// Frees a range; returns `None` if the import was not added. After the last range, `free` frees the mapping by its
    /// first address; on failure the mapping is leaked. Without `free` the mapping is kept for later ranges until
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

/// Level arrays of a device, by image and level.
#[derive(Debug, Default)]
pub(crate) struct Levels(Mutex<HashMap<usize, BTreeMap<u32, Handle>>>);

impl Levels {
    /// Returns the array of a level. `get` queries the driver; it is called once per level, with the lock held.
    pub(crate) fn get(
        &self,
        image: RawMipmappedArray,
        level: u32,
        get: impl FnOnce() -> Result<Handle>,
    ) -> Result<Handle> {
        let mut images = self.lock();
        if let Some(array) = images.get(&image.get()).and_then(|levels| levels.get(&level)) {
            return Ok(*array);
        }
        let array = get()?;
        images.entry(image.get()).or_default().insert(level, array);
        Ok(array)
    }

    /// Removes an image and returns its level arrays. Called before the driver destroys the image and may reuse its
    /// handle.
    pub(crate) fn remove(&self, image: RawMipmappedArray) -> Arrays {
        Arrays(self.lock().remove(&image.get()).unwrap_or_default())
    }

    /// Locks the map, which a panic cannot leave inconsistent.
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, BTreeMap<u32, Handle>>> {
        lock(&self.0)
    }
}

/// Level arrays of a removed image, by level.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrays(BTreeMap<u32, Handle>);

impl Arrays {
    /// Destroys the arrays. Failures are reported through `tracing`.
    ///
    /// # Safety
    /// The arrays are live and not used afterwards, and their device is current.
    pub(crate) unsafe fn destroy<V: Vendor>(self, driver: &Driver<V>) {
        for array in self.0.into_values() {
            // SAFETY: the caller's promise.
            if let Err(error) = unsafe { V::destroy_level(driver, array) } {
                tracing::error!(%error, "destroying a level of an image failed; the image's memory may be leaked");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use gpu_interop_core::Error;

    use super::*;

    const MEMORY: RawMemory = RawMemory::new(7);
    const BASE: u64 = 0x7f00_0000_0000;

    const NEVER_FREED: Option<fn(DeviceAddress) -> Result<()>> = None;

    fn imports() -> Imports {
        let imports = Imports::default();
        imports.add(MEMORY, 4096);
        imports
    }

    fn driver_error(code: &'static str) -> Error {
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
            address.expect("added").expect("maps") - BASE
        };
        let free = || {
            let freed = imports.free(
                MEMORY,
                Some(|address| {
                    calls.borrow_mut().push(("free", address));
                    Ok(())
                }),
            );
            freed.expect("added").expect("frees");
        };
        assert_eq!([map(0), map(0), map(64)], [0, 0, 64]);
        assert_eq!(*calls.borrow(), [("map", 4096)]);
        (0..2).for_each(|_| free());
        assert_eq!(map(4095), 4095);
        (0..2).for_each(|_| free());
        assert_eq!(*calls.borrow(), [("map", 4096), ("free", BASE)]);
        // The next range maps the import again.
        assert_eq!(map(1), 1);
        free();
        assert_eq!(*calls.borrow(), [("map", 4096), ("free", BASE), ("map", 4096), ("free", BASE)]);
    }

    #[test]
    fn a_kept_mapping_is_mapped_once_until_the_import_is_destroyed() {
        let imports = imports();
        let calls = RefCell::new(0);
        for _ in 0..3 {
            let map = |_| {
                *calls.borrow_mut() += 1;
                Ok(BASE)
            };
            assert_eq!(imports.map(MEMORY, 64, map).expect("added").expect("maps"), BASE + 64);
            imports.free(MEMORY, NEVER_FREED).expect("added").expect("frees");
        }
        assert_eq!(*calls.borrow(), 1);
        let error = imports.free(MEMORY, NEVER_FREED).expect("added").expect_err("no range is mapped");
        assert_eq!(error.kind(), gpu_interop_core::ErrorKind::InvalidArgument);
        assert_eq!(imports.remove(MEMORY), Some(BASE), "still mapped");
        assert!(imports.free(MEMORY, NEVER_FREED).is_none());
    }

    #[test]
    fn failed_calls_are_not_counted() {
        let imports = imports();
        assert!(imports.map(MEMORY, 0, |_| Err(driver_error("no mapping"))).is_some_and(|mapped| mapped.is_err()));
        assert!(imports.free(MEMORY, Some(|_| unreachable!("nothing is mapped"))).is_some_and(|freed| freed.is_err()));
        imports.map(MEMORY, 0, |_| Ok(BASE)).expect("added").expect("maps");
        let error = imports.free(MEMORY, Some(|_| Err(driver_error("no freeing")))).expect("added").expect_err("fails");
        assert_eq!(error.operation(), "driver");
        // The failed mapping is leaked: the next range maps the import again.
        let next = imports.map(MEMORY, 8, |_| Ok(BASE + 4096)).expect("added").expect("maps");
        assert_eq!(next, BASE + 4096 + 8);
    }

    #[test]
    fn an_import_that_was_not_added_or_was_removed_is_mapped_by_range() {
        let imports = imports();
        assert_eq!(imports.remove(MEMORY), None);
        assert!(imports.map(MEMORY, 0, |_| unreachable!("there is no import")).is_none());
        assert!(imports.free(MEMORY, Some(|_| unreachable!("there is no import"))).is_none());
    }

    #[test]
    fn map_and_free_of_an_import_never_run_concurrently() {
        // Models a driver with one entry per address: mapping sets it, freeing clears it.
        let (imports, entry) = (imports(), Mutex::new(false));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let map = |_| {
                            assert!(!std::mem::replace(&mut *lock(&entry), true), "mapped twice");
                            Ok(BASE)
                        };
                        imports.map(MEMORY, 0, map).expect("added").expect("maps");
                        assert!(*lock(&entry), "freed while in use");
                        let free = |_| {
                            assert!(std::mem::replace(&mut *lock(&entry), false), "freed twice");
                            Ok(())
                        };
                        imports.free(MEMORY, Some(free)).expect("added").expect("frees");
                    }
                });
            }
        });
    }

    const IMAGE: RawMipmappedArray = RawMipmappedArray::new(7);
    const OTHER: RawMipmappedArray = RawMipmappedArray::new(8);

    fn arrays(handles: &[Handle]) -> Arrays {
        Arrays((0..).zip(handles.iter().copied()).collect())
    }

    #[test]
    fn a_level_is_queried_once_and_returned_by_remove() {
        let levels = Levels::default();
        let get = |image, level, array| levels.get(image, level, || Ok(array)).expect("a level");
        assert_eq!([get(IMAGE, 0, 10), get(IMAGE, 1, 11), get(IMAGE, 0, 12), get(OTHER, 0, 20)], [10, 11, 10, 20]);
        assert_eq!(levels.remove(IMAGE), arrays(&[10, 11]));
        assert_eq!(levels.remove(IMAGE), arrays(&[]));
        assert_eq!(get(IMAGE, 0, 13), 13, "another image with the same handle");
        assert_eq!(levels.remove(OTHER), arrays(&[20]));
    }

    #[test]
    fn a_failed_query_of_a_level_is_repeated() {
        let levels = Levels::default();
        levels.get(IMAGE, 0, || Err(Error::invalid("driver", "no level"))).expect_err("fails");
        assert_eq!(levels.get(IMAGE, 0, || Ok(10)).expect("a level"), 10);
        assert_eq!(levels.remove(IMAGE), arrays(&[10]));
    }
}
