//! Mipmap level arrays that are destroyed separately from their image ([`Vendor::LEVELS_OWNED_SEPARATELY`]).
//!
//! Some drivers create a new array for each query of a level. The array keeps the image and its memory alive until it
//! is destroyed. Each level is therefore queried once, and its array is destroyed before the image.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use gpu_interop_core::Result;
use gpu_interop_core::backend::RawMipmappedArray;
use gpu_interop_core::sync::lock;

use crate::driver::Driver;
use crate::driver::Vendor;
use crate::functions::Handle;

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
    use gpu_interop_core::Error;

    use super::*;

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
