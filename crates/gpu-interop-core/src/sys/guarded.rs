//! Values of the application whose destructor may panic.

use std::mem::ManuallyDrop;
use std::ops::Deref;

use crate::callback::caught;

/// A value of the application. A panic of its destructor ends here.
#[derive(Debug)]
pub(crate) struct Guarded<T>(ManuallyDrop<T>);

impl<T> Guarded<T> {
    pub(crate) fn new(value: T) -> Self {
        Self(ManuallyDrop::new(value))
    }
}

impl<T> Deref for Guarded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: the value is dropped here only, once, and not used afterwards.
        caught(|| unsafe { ManuallyDrop::drop(&mut self.0) });
    }
}
