//! Names of kernel objects.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::log::say;

/// Those of a process, by the objects' addresses.
#[derive(Debug, Default)]
pub(crate) struct Kernels(Mutex<HashMap<u64, String>>);

impl Kernels {
    /// Records a name. A later module may have its kernel at the address of an earlier one: the last name counts.
    pub(crate) fn learn(&self, object: u64, name: String) {
        say!(1, "kernel object {object:#x} is {name}");
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(object, name);
    }

    pub(super) fn name(&self, object: u64) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&object).cloned()
    }
}
