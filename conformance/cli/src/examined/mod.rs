//! A system as it is examined: its files and variables, the dynamic linker's search, and the kind of container.

mod container;
pub(crate) mod linker;
mod system;

pub(crate) use container::container;
pub(crate) use system::System;
