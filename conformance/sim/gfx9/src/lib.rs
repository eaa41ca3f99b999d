//! An interpreter of AMD's GFX9 instructions: compute programs of gfx906 with waves of 64 work items.
//!
//! A [`Dispatch`] executes a program's workgroups. The caller provides the GPU's address space as a [`Memory`] and calls
//! [`Dispatch::run`] until the dispatch is done; between two calls it may change the address space.
//!
//! | module | topic |
//! |---|---|
//! | `table` | one row per instruction: opcode, name, operands, meaning |
//! | `decode`, `text` | words to instructions, and instructions to the assembler's text |
//! | `value`, `wave`, `lanes` | types of operands, registers, operations on all lanes |
//! | `memory`, `buffer`, `format` | accesses by addresses and by descriptors, formats of elements |
//! | `image`, `tiling` | image descriptors, and the places of their elements in memory |
//! | `sampler`, `cube` | which elements a sampled coordinate touches |
//! | `dispatch` | workgroups, barriers, and the order of waves |
//!
//! An unknown instruction, and a known one in a form that is not implemented, is an error that names its words and its
//! address: no instruction is skipped. Not emulated: caches, timing, exceptions of floating-point numbers, rounding
//! other than to nearest even, and draws.

#![doc(html_root_url = "../")]
// Instructions truncate and reinterpret numbers by definition.
#![allow(clippy::cast_possible_truncation)]
// The macros of the tables give closures their types.
#![allow(clippy::redundant_closure_call)]

mod buffer;
#[cfg(all(test, target_os = "linux"))]
mod check;
mod cube;
mod decode;
mod dispatch;
mod format;
mod image;
mod lanes;
mod memory;
mod sampler;
mod table;
mod text;
mod tiling;
mod value;
mod wave;

pub use decode::{Instruction, NO_ROW, decode};
pub use dispatch::{Dispatch, Launch, Progress};
pub use memory::{Mapping, Memory};
pub use tiling::AddressConfig;

/// Reason why a dispatch stops before its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Words that are no instruction, or an instruction that is not implemented.
    #[error("the instruction at {address:#x} ({words}) is not implemented: {reason}")]
    Unknown {
        /// Address of the instruction.
        address: u64,
        /// The instruction's first two words, and its text if it is known.
        words: String,
        /// What is missing.
        reason: &'static str,
    },
    /// An access to an address that is not mapped, or not for writing.
    #[error("page fault at {address:#x}: {}", if *.read_only { "the mapping is read-only" } else { "nothing is mapped" })]
    PageFault {
        /// The address.
        address: u64,
        /// The address is mapped, but not for writing.
        read_only: bool,
    },
    /// The program executed `s_trap`.
    #[error("the program executed s_trap {0}")]
    Trap(u8),
    /// The launch is invalid.
    #[error("the launch is invalid: {0}")]
    Launch(&'static str),
}

/// Result of an instruction.
type Result<T> = std::result::Result<T, Stop>;

/// An error without the instruction's address, which [`dispatch`] adds.
const fn unknown(reason: &'static str) -> Stop {
    Stop::Unknown { address: 0, words: String::new(), reason }
}
