//! Operations of streams.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use gpu_interop_core::backend::{HostFunction, bytes};
use gpu_interop_core::{DevicePtr, Error, ErrorKind, LaunchConfig, Result, SignalParams, WaitCondition, WaitParams};

use crate::kernel::HostArg;
use crate::kernel::{HostKernel, KernelCall, host_ptr};
use crate::shared_semaphore::SharedSemaphore;
use crate::stream::Record;

/// Value of a word that a stream waits for or writes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Word {
    U32(u32),
    U64(u64),
}

/// Pointer sent to the stream's thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Carried<T>(pub(crate) *mut T);

// SAFETY: only the stream's thread uses the pointer, and the caller of the backend promises that its target stays valid
// on any thread until the operation has run.
unsafe impl<T> Send for Carried<T> {}

/// Kernel launch. Boxed in [`Op`] because it is larger than the other operations and not on a hot path.
#[derive(Debug, Clone)]
pub(crate) struct Launch {
    pub(crate) kernel: HostKernel,
    pub(crate) config: LaunchConfig,
    pub(crate) args: Vec<HostArg>,
}

/// Operation of a stream.
#[derive(Debug, Clone)]
pub(crate) enum Op {
    Copy {
        dst: Carried<u8>,
        src: Carried<u8>,
        size: usize,
    },
    /// Copies to host memory that only the operation accesses.
    Read {
        dst: Carried<u8>,
        src: Carried<u8>,
        size: usize,
    },
    /// Copies from host memory. The memory is not written until the copy has completed.
    Write {
        dst: Carried<u8>,
        src: Carried<u8>,
        size: usize,
    },
    FillU8 {
        dst: Carried<u8>,
        value: u8,
        size: usize,
    },
    FillU32 {
        dst: Carried<u32>,
        value: u32,
        count: usize,
    },
    Signal {
        semaphore: Arc<SharedSemaphore>,
        params: SignalParams,
    },
    Wait {
        semaphore: Arc<SharedSemaphore>,
        params: WaitParams,
    },
    WaitValue {
        word: Carried<u8>,
        value: Word,
        condition: WaitCondition,
    },
    WriteValue {
        word: Carried<u8>,
        value: Word,
    },
    Record(Arc<Record>),
    WaitEvent(Arc<Record>),
    HostFunction {
        function: HostFunction,
        data: Carried<u8>,
    },
    Launch(Box<Launch>),
}

impl Op {
    /// Runs the operation on the stream's thread. Once `cancelled` is set only event records run, so that waits for
    /// them end.
    pub(crate) fn run(self, cancelled: &AtomicBool) -> Result<()> {
        if cancelled.load(Ordering::Relaxed) {
            return match self {
                Self::Record(record) => {
                    record.pass();
                    Ok(())
                }
                _ => Err(Error::new(
                    ErrorKind::Cancelled,
                    "HostBackend::stream",
                    "the device was closed with work pending",
                )),
            };
        }
        match self {
            Self::Copy { dst, src, size } => {
                // SAFETY: both ranges are valid for `size` bytes until the operation has run and do not overlap, by the
                // contract of the backend's caller.
                unsafe { bytes::copy(src.0, dst.0, size) };
                Ok(())
            }
            Self::Read { dst, src, size } => {
                // SAFETY: as for a copy; only the operation accesses the host memory until it has run.
                unsafe { bytes::read(src.0, dst.0, size) };
                Ok(())
            }
            Self::Write { dst, src, size } => {
                // SAFETY: as for a copy; the host memory is not written until the operation has run.
                unsafe { bytes::write(src.0, dst.0, size) };
                Ok(())
            }
            Self::FillU8 { dst, value, size } => {
                // SAFETY: as for a copy.
                unsafe { bytes::fill_u8(dst.0, value, size) };
                Ok(())
            }
            Self::FillU32 { dst, value, count } => {
                // SAFETY: as for a copy; the caller promises alignment.
                unsafe { bytes::fill_u32(dst.0, value, count) };
                Ok(())
            }
            Self::Signal { semaphore, params } => match params {
                SignalParams::Value(value) => semaphore.signal_value(value),
                _ => semaphore.signal_binary(),
            },
            Self::Wait { semaphore, params } => match params {
                WaitParams::Value(value) => semaphore.wait_value(value, None, cancelled),
                _ => semaphore.wait_binary(None, cancelled),
            },
            Self::WaitValue { word, value, condition } => wait_word(word, value, condition, cancelled),
            Self::WriteValue { word, value } => {
                write_word(word, value);
                Ok(())
            }
            Self::Record(record) => {
                record.pass();
                Ok(())
            }
            Self::WaitEvent(record) => record.wait(cancelled),
            Self::HostFunction { function, data } => {
                // SAFETY: the caller that enqueued the function promises that it accepts `data`; it runs once.
                unsafe { function(data.0.cast()) };
                Ok(())
            }
            Self::Launch(launch) => launch.run(),
        }
    }
}

impl Launch {
    fn run(&self) -> Result<()> {
        let failed = |message: String| Error::new(ErrorKind::Driver, "HostBackend::launch_kernel", message);
        let call = KernelCall { config: &self.config, args: &self.args };
        self.kernel.call(&call).map_err(|message| failed(format!("the kernel failed: {message}")))
    }
}

/// Converts a device address to a pointer for an operation.
pub(crate) fn carried<T>(operation: &'static str, address: DevicePtr) -> Result<Carried<T>> {
    host_ptr(address).map(|ptr| Carried(ptr.cast())).map_err(|message| Error::invalid(operation, message))
}

/// Converts a byte count to `usize`.
pub(crate) fn length(operation: &'static str, size: u64) -> Result<usize> {
    usize::try_from(size)
        .map_err(|_| Error::invalid(operation, "the size exceeds the address space").with_context("size", size))
}

fn load(word: Carried<u8>, width: Word) -> u64 {
    // SAFETY: the caller of the backend promises a live, naturally aligned word of this width until the operation has
    // run.
    unsafe {
        match width {
            Word::U32(_) => u64::from(AtomicU32::from_ptr(word.0.cast()).load(Ordering::Acquire)),
            Word::U64(_) => AtomicU64::from_ptr(word.0.cast()).load(Ordering::Acquire),
        }
    }
}

fn write_word(word: Carried<u8>, value: Word) {
    // SAFETY: as in `load`.
    unsafe {
        match value {
            Word::U32(value) => AtomicU32::from_ptr(word.0.cast()).store(value, Ordering::Release),
            Word::U64(value) => AtomicU64::from_ptr(word.0.cast()).store(value, Ordering::Release),
        }
    }
}

fn is_met(word: u64, wanted: Word, condition: WaitCondition) -> bool {
    let (value, reached, nor) = match wanted {
        Word::U32(value) => {
            // A 32-bit word is stored in the low half.
            #[allow(clippy::cast_possible_truncation)]
            let low = word as u32;
            (u64::from(value), low.wrapping_sub(value).cast_signed() >= 0, !(low | value) != 0)
        }
        Word::U64(value) => (value, word.wrapping_sub(value).cast_signed() >= 0, !(word | value) != 0),
    };
    match condition {
        WaitCondition::GreaterOrEqual => reached,
        WaitCondition::Equal => word == value,
        WaitCondition::And => word & value != 0,
        WaitCondition::Nor => nor,
    }
}

/// Polls a word until the condition holds: changes of plain memory cause no notification. Spins first, then sleeps for
/// increasing times.
fn wait_word(word: Carried<u8>, value: Word, condition: WaitCondition, cancelled: &AtomicBool) -> Result<()> {
    const SPINS: u32 = 500;
    const LONGEST: Duration = Duration::from_micros(200);
    let mut pause = Duration::from_micros(1);
    for round in 0_u32.. {
        if is_met(load(word, value), value, condition) {
            break;
        }
        if cancelled.load(Ordering::Relaxed) {
            return Err(Error::new(
                ErrorKind::Cancelled,
                "HostBackend::wait_value",
                "the device was closed while a stream waited",
            ));
        }
        if round < SPINS {
            std::hint::spin_loop();
        } else {
            std::thread::sleep(pause);
            pause = (pause * 2).min(LONGEST);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_the_drivers() {
        use WaitCondition::{And, Equal, GreaterOrEqual, Nor};
        assert!(is_met(7, Word::U32(7), GreaterOrEqual) && !is_met(6, Word::U32(7), GreaterOrEqual));
        // Wrap-around: 2 is past u32::MAX, and half the range away is not.
        assert!(is_met(2, Word::U32(u32::MAX), GreaterOrEqual));
        assert!(!is_met(0x8000_0007, Word::U32(7), GreaterOrEqual));
        assert!(
            is_met(2, Word::U64(u64::MAX), GreaterOrEqual) && !is_met(0xffff_ffff, Word::U64(1 << 32), GreaterOrEqual)
        );
        assert!(is_met(5, Word::U64(5), Equal) && !is_met(4, Word::U64(5), Equal));
        assert!(is_met(0b110, Word::U32(0b010), And) && !is_met(0b100, Word::U32(0b010), And));
        assert!(is_met(0, Word::U32(u32::MAX - 1), Nor) && !is_met(1, Word::U32(u32::MAX - 1), Nor));
        assert!(!is_met(0, Word::U64(u64::MAX), Nor));
    }

    /// Against the definition of each condition, bit by bit, with words and values around the ends of both widths.
    #[test]
    fn conditions_look_at_every_bit_of_their_width() {
        use WaitCondition::{And, Equal, GreaterOrEqual, Nor};
        let edges = [0, 1, u64::from(u32::MAX) / 2, u64::from(u32::MAX), u64::MAX / 2, u64::MAX];
        let numbers = || edges.into_iter().flat_map(|edge| [edge.wrapping_sub(1), edge, edge.wrapping_add(1), !edge]);
        for (word, value) in numbers().flat_map(|word| numbers().map(move |value| (word, value))) {
            for bits in [32, 64] {
                let mask = u64::MAX >> (64 - bits);
                let (word, value) = (word & mask, value & mask);
                let wanted = u32::try_from(value).ok().filter(|_| bits == 32).map_or(Word::U64(value), Word::U32);
                let is_set = |of: u64, bit: u32| (of >> bit) % 2 == 1;
                let is_so = |condition| match condition {
                    GreaterOrEqual => word.wrapping_sub(value) & mask <= mask / 2,
                    Equal => (0..bits).all(|bit| is_set(word, bit) == is_set(value, bit)),
                    And => (0..bits).any(|bit| is_set(word, bit) && is_set(value, bit)),
                    Nor => (0..bits).any(|bit| !is_set(word, bit) && !is_set(value, bit)),
                };
                for condition in [GreaterOrEqual, Equal, And, Nor] {
                    let found = is_met(word, wanted, condition);
                    assert_eq!(found, is_so(condition), "{word:#x} {condition:?} {wanted:?}");
                }
            }
        }
    }
}
