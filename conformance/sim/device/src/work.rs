//! Work of streams, as the functions of both vendors enqueue it, and the words that streams wait for and write. A
//! failure is a status code.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{with_exposed_provenance as from, with_exposed_provenance_mut as to};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

pub use gpu_interop_sim_abi::{address, give};

use crate::kernel::MODULES;
pub use crate::stream::HostFunction;
use crate::stream::{EVENTS, Event, STREAMS, Stream};
use crate::{code, faults, kernel, stream};

/// The maximum number of threads of a block.
const THREADS: u32 = 1024;

/// The stream of a handle.
///
/// # Errors
/// [`code::INVALID_HANDLE`].
pub fn stream_of(handle: usize) -> Result<Arc<Stream>, u32> {
    Stream::of(handle).ok_or(code::INVALID_HANDLE)
}

/// The event of a handle.
///
/// # Errors
/// [`code::INVALID_HANDLE`].
pub fn event_of(handle: usize) -> Result<Arc<Event>, u32> {
    EVENTS.get(handle).ok_or(code::INVALID_HANDLE)
}

/// Creates a stream. Both vendors have one flag.
pub fn create_stream(flags: u32) -> Result<usize, u32> {
    code::reject_if(flags > 1)?;
    Stream::start().map(|stream| STREAMS.insert(stream)).map_err(|_| code::OUT_OF_MEMORY)
}

/// Destroys a stream once its work has run.
pub fn destroy_stream(stream: usize) -> Result<(), u32> {
    STREAMS.remove(stream).ok_or(code::INVALID_HANDLE)?.close();
    Ok(())
}

/// Success if a stream is idle.
///
/// # Errors
/// The status code of the failure, also of the stream's work; [`code::NOT_READY`].
pub fn query_stream(stream: usize) -> Result<(), u32> {
    if stream_of(stream)?.is_idle()? { Ok(()) } else { Err(code::NOT_READY) }
}

/// Makes a stream wait for the last record of an event.
pub fn wait_event(stream: usize, event: usize, flags: u32) -> Result<(), u32> {
    let (stream, event) = (stream_of(stream)?, event_of(event)?);
    code::reject_if(flags > 1)?;
    if let Some(record) = event.last() {
        stream.enqueue(move || {
            record.wait();
            Ok(())
        });
    }
    Ok(())
}

/// Ends an event.
pub fn destroy_event(event: usize) -> Result<(), u32> {
    EVENTS.remove(event).map(drop).ok_or(code::INVALID_HANDLE)
}

/// Success if an event has completed.
///
/// # Errors
/// The status code of the failure; [`code::NOT_READY`].
pub fn query_event(event: usize) -> Result<(), u32> {
    if event_of(event)?.is_complete() { Ok(()) } else { Err(code::NOT_READY) }
}

/// Enqueues a copy.
///
/// # Safety
/// The ranges are valid until the copy has run.
pub unsafe fn copy(target: usize, source: usize, size: usize, stream: usize) -> Result<(), u32> {
    let stream = stream_of(stream)?;
    code::reject_if(size > 0 && (target == 0 || source == 0))?;
    stream.enqueue(move || {
        // SAFETY: the caller's promise. An exporter that writes at the same time can make the copy torn, never invalid.
        faults::unless_lost(|| unsafe { to::<u8>(target).copy_from(from(source), size) });
        Ok(())
    });
    Ok(())
}

/// The maximum size in bytes of a fill that other work may overtake.
const SLOW_FILL: usize = 4096;

/// Enqueues a fill. Small fills are slow: on some drivers signals of semaphores overtake them.
///
/// # Safety
/// The range is valid until the fill has run.
pub unsafe fn fill<T: Copy + Send + Sync + 'static>(
    target: u64,
    value: T,
    count: usize,
    stream: usize,
) -> Result<(), u32> {
    let (stream, target) = (stream_of(stream)?, address(target));
    code::reject_if(count > 0 && (target == 0 || !target.is_multiple_of(size_of::<T>())))?;
    // SAFETY: the caller's promise.
    unsafe { fill_anywhere(&stream, target, value, count) };
    Ok(())
}

/// As [`fill`], also for an address that is not a multiple of the value's size.
///
/// # Safety
/// The range is valid until the fill has run.
pub unsafe fn fill_anywhere<T: Copy + Send + Sync + 'static>(stream: &Stream, target: usize, value: T, count: usize) {
    let fill = move || {
        // SAFETY: the caller's promise.
        faults::unless_lost(|| unsafe { write_copies(to(target), value, count) });
        Ok(())
    };
    if count.saturating_mul(size_of::<T>()) <= SLOW_FILL {
        stream.enqueue_slow(fill);
    } else {
        stream.enqueue(fill);
    }
}

/// Writes `count` copies of a value, many at a time: an unoptimised build would need a minute for single ones.
///
/// # Safety
/// The range is valid.
unsafe fn write_copies<T: Copy>(target: *mut T, value: T, count: usize) {
    const MOST: usize = 1024;
    let copies = [value; MOST];
    for start in (0..count).step_by(MOST) {
        let size = (count - start).min(MOST) * size_of::<T>();
        // SAFETY: the caller's promise. The copies are a variable of this function, and bytes need no alignment.
        unsafe { target.add(start).cast::<u8>().copy_from_nonoverlapping(copies.as_ptr().cast(), size) };
    }
}

fn word(pointer: u64, value: Word) -> Result<usize, u32> {
    let pointer = address(pointer);
    if pointer == 0 || !pointer.is_multiple_of(value.size()) { Err(code::INVALID_VALUE) } else { Ok(pointer) }
}

/// Makes a stream wait for a word.
///
/// # Safety
/// The word is valid until the wait has ended.
pub unsafe fn wait_value(
    stream: usize,
    pointer: u64,
    value: Word,
    mask: u64,
    condition: Option<Condition>,
) -> Result<(), u32> {
    let (stream, pointer) = (stream_of(stream)?, word(pointer, value)?);
    let condition = condition.ok_or(code::INVALID_VALUE)?;
    stream.enqueue(move || {
        // SAFETY: the caller's promise.
        unsafe { value.wait(pointer, mask, condition) };
        Ok(())
    });
    Ok(())
}

/// Makes a stream write a word.
///
/// # Safety
/// The word is valid until it is written.
pub unsafe fn write_value(stream: usize, pointer: u64, value: Word) -> Result<(), u32> {
    let (stream, pointer) = (stream_of(stream)?, word(pointer, value)?);
    stream.enqueue(move || {
        // SAFETY: the caller's promise.
        faults::unless_lost(|| unsafe { value.store(pointer) });
        Ok(())
    });
    Ok(())
}

/// Enqueues a function.
///
/// # Safety
/// The function accepts the data, and does not unwind.
pub unsafe fn host_function(stream: usize, function: Option<HostFunction>, data: *mut c_void) -> Result<(), u32> {
    let (stream, function) = (stream_of(stream)?, function.ok_or(code::INVALID_VALUE)?);
    let data = data.expose_provenance();
    stream.enqueue(move || {
        // SAFETY: the caller's promise.
        unsafe { stream::call_host_function(function, data) };
        Ok(())
    });
    Ok(())
}

/// The kernel of a module with this name.
///
/// # Errors
/// The status code of the failure; [`code::NOT_FOUND`].
///
/// # Safety
/// `name` is NULL or a string.
pub unsafe fn module_kernel(module: usize, name: *const c_char) -> Result<usize, u32> {
    let module = MODULES.get(module).ok_or(code::INVALID_HANDLE)?;
    code::reject_if(name.is_null())?;
    // SAFETY: the caller's promise.
    module.kernel(unsafe { CStr::from_ptr(name) }).ok_or(code::NOT_FOUND)
}

/// Enqueues a kernel.
///
/// # Safety
/// The arguments are those of the kernel, and their memory is valid until it has run.
pub unsafe fn launch(
    function: usize,
    grid: [u32; 3],
    block: [u32; 3],
    stream: usize,
    [arguments, extra]: [*mut *mut c_void; 2],
) -> Result<(), u32> {
    let (stream, kernel) = (stream_of(stream)?, kernel::of(function).ok_or(code::INVALID_HANDLE)?);
    let threads = block.into_iter().try_fold(1_u32, u32::checked_mul).unwrap_or(u32::MAX);
    code::reject_if(grid.contains(&0) || !(1..=THREADS).contains(&threads) || arguments.is_null() || !extra.is_null())?;
    // SAFETY: the caller's promise.
    let run = unsafe { kernel.launch(grid, block, arguments) }?;
    stream.enqueue(move || {
        faults::unless_lost(&run);
        Ok(())
    });
    Ok(())
}

/// A value with the word's width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// 32 bits.
    Narrow(u32),
    /// 64 bits.
    Wide(u64),
}

/// Condition that ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The difference between word and value, wrapping around, is not negative: CUDA's condition.
    Reached,
    /// The word is at least the value: HIP's condition.
    AtLeast,
    /// They are equal.
    Equal,
    /// The word and the value have a common bit.
    And,
    /// A bit is 0 in both.
    Nor,
}

impl Condition {
    /// The condition with this number, which both vendors share. `first` is the meaning of 0.
    pub fn of(first: Self, number: u32) -> Option<Self> {
        [first, Self::Equal, Self::And, Self::Nor].get(usize::try_from(number).ok()?).copied()
    }
}

impl Word {
    /// Bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Narrow(_) => 4,
            Self::Wide(_) => 8,
        }
    }

    /// `true` if the address is aligned for the word.
    fn is_aligned(self, address: usize) -> bool {
        address.is_multiple_of(self.size())
    }

    /// The bits of a word of this width at `address`. If it is not aligned, a concurrent write may be seen partially,
    /// as on a device.
    ///
    /// # Safety
    /// The word is valid for reads.
    unsafe fn load(self, address: usize) -> u64 {
        let aligned = self.is_aligned(address);
        // SAFETY: the caller's promise. Other writers access it as a device does.
        unsafe {
            match self {
                Self::Narrow(_) if aligned => AtomicU32::from_ptr(at(address)).load(Ordering::Acquire).into(),
                Self::Wide(_) if aligned => AtomicU64::from_ptr(at(address)).load(Ordering::Acquire),
                Self::Narrow(_) => u32::from_ne_bytes(at::<[u8; 4]>(address).read_volatile()).into(),
                Self::Wide(_) => u64::from_ne_bytes(at::<[u8; 8]>(address).read_volatile()),
            }
        }
    }

    /// Writes the value.
    ///
    /// # Safety
    /// The word at `address` is valid for writes.
    pub unsafe fn store(self, address: usize) {
        let aligned = self.is_aligned(address);
        // SAFETY: as in `load`.
        unsafe {
            match self {
                Self::Narrow(value) if aligned => AtomicU32::from_ptr(at(address)).store(value, Ordering::Release),
                Self::Wide(value) if aligned => AtomicU64::from_ptr(at(address)).store(value, Ordering::Release),
                Self::Narrow(value) => at::<[u8; 4]>(address).write_volatile(value.to_ne_bytes()),
                Self::Wide(value) => at::<[u8; 8]>(address).write_volatile(value.to_ne_bytes()),
            }
        }
    }

    /// Waits until the condition holds or the device is lost. Polls the word with increasing pauses.
    ///
    /// # Safety
    /// The word at `address` is valid for reads until this returns.
    pub unsafe fn wait(self, address: usize, mask: u64, condition: Condition) {
        let mut pause = Duration::from_micros(1);
        // SAFETY: the caller's promise. Losing the device frees no memory.
        while !faults::is_lost() && !self.is_met(unsafe { self.load(address) }, mask, condition) {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_micros(200));
        }
    }

    fn is_met(self, word: u64, mask: u64, condition: Condition) -> bool {
        let (value, sign, all) = match self {
            Self::Narrow(value) => (u64::from(value), 1 << 31, u64::from(u32::MAX)),
            Self::Wide(value) => (value, 1 << 63, u64::MAX),
        };
        let (mask, word) = (mask & all, word & mask);
        match condition {
            Condition::Reached => word.wrapping_sub(value) & sign == 0,
            Condition::AtLeast => word >= value,
            Condition::Equal => word == value,
            Condition::And => word & value != 0,
            // AMD's kernel applies the mask to the value, too.
            Condition::Nor => (word | value) & mask != mask,
        }
    }
}

fn at<T>(address: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_hold_when_they_should() {
        use Condition::{And, AtLeast, Equal, Nor, Reached};
        const ALL: u64 = u64::MAX;
        assert!(Word::Narrow(7).is_met(7, ALL, Reached) && !Word::Narrow(7).is_met(6, ALL, Reached));
        assert!(Word::Narrow(u32::MAX).is_met(2, ALL, Reached) && Word::Wide(u64::MAX).is_met(2, ALL, Reached));
        assert!(
            !Word::Narrow(7).is_met(0x8000_0007, ALL, Reached)
                && !Word::Wide(1 << 32).is_met(0xffff_ffff, ALL, Reached)
        );
        assert!(Word::Wide(5).is_met(5, ALL, Equal) && !Word::Wide(5).is_met(4, ALL, Equal));
        assert!(Word::Narrow(2).is_met(6, ALL, And) && !Word::Narrow(2).is_met(4, ALL, And));
        assert!(Word::Narrow(u32::MAX - 1).is_met(0, ALL, Nor) && !Word::Narrow(u32::MAX - 1).is_met(1, ALL, Nor));
        assert!(!Word::Narrow(u32::MAX).is_met(2, ALL, AtLeast) && Word::Narrow(7).is_met(0x8000_0007, ALL, AtLeast));
        assert!(!Word::Narrow(2).is_met(1, 1, Nor) && Word::Narrow(2).is_met(0, 1, Nor));
        assert!(Word::Narrow(5).is_met(0xf5, 0x0f, Equal) && !Word::Narrow(0x10).is_met(0x1f, 0x0f, And));
        let of = |number| Condition::of(AtLeast, number);
        assert_eq!([0, 1, 2, 3, 4].map(of), [Some(AtLeast), Some(Equal), Some(And), Some(Nor), None]);
    }
}
