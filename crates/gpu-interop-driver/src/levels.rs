//! Levels of images that end apart from their image.
//!
//! Some drivers make a new array each time they are asked for a level. It keeps the image, and so the memory, until it is
//! destroyed. So a driver is asked once for each level, and the arrays are destroyed before their image.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard, PoisonError};

use gpu_interop_core::Result;
use gpu_interop_core::backend::RawMipmappedArray;

use crate::driver::Driver;
use crate::functions::Handle;
use crate::vendor::Vendor;

/// The level arrays of a device, by their image and number.
#[derive(Debug, Default)]
pub(crate) struct Levels(Mutex<HashMap<usize, BTreeMap<u32, Handle>>>);

impl Levels {
    /// The array of a level. `get` asks the driver for it; it is called once for each level, with the lock held.
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

    /// Forgets an image. Before the driver does, which may give the next one the same handle. Returns its level arrays.
    pub(crate) fn remove(&self, image: RawMipmappedArray) -> Arrays {
        Arrays(self.lock().remove(&image.get()).unwrap_or_default())
    }

    /// The map is valid at every step.
    fn lock(&self) -> MutexGuard<'_, HashMap<usize, BTreeMap<u32, Handle>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The level arrays of an image that ends, by number.
#[must_use]
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arrays(BTreeMap<u32, Handle>);

impl Arrays {
    /// Destroys them. Failures are reported through `tracing`.
    ///
    /// # Safety
    /// They are live, nothing uses them any more, and their device is current.
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
    fn a_level_is_asked_for_once_and_returned_at_the_end() {
        let levels = Levels::default();
        let get = |image, level, array| levels.get(image, level, || Ok(array)).expect("a level");
        assert_eq!([get(IMAGE, 0, 10), get(IMAGE, 1, 11), get(IMAGE, 0, 12), get(OTHER, 0, 20)], [10, 11, 10, 20]);
        assert_eq!(levels.remove(IMAGE), arrays(&[10, 11]));
        assert_eq!(levels.remove(IMAGE), arrays(&[]));
        assert_eq!(get(IMAGE, 0, 13), 13, "another image with the same handle");
        assert_eq!(levels.remove(OTHER), arrays(&[20]));
    }

    #[test]
    fn a_level_that_the_driver_did_not_give_is_asked_for_again() {
        let levels = Levels::default();
        levels.get(IMAGE, 0, || Err(Error::invalid("driver", "no level"))).expect_err("fails");
        assert_eq!(levels.get(IMAGE, 0, || Ok(10)).expect("a level"), 10);
        assert_eq!(levels.remove(IMAGE), arrays(&[10]));
    }
}
