//! Allocation of words in signal memory.
//!
//! A word is a counter: every use takes the next ticket number, and ends once the word has reached it. A word can be
//! reused at once, even if the stream that waits for an earlier ticket has not read it yet: its value only grows.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::backend::{BackendDevice, DevicePtr, SignalMemory};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, unpoisoned};

/// Spacing of words in bytes: one cache line each, because each has its own writer.
const SPACING: usize = 64;
/// Last ticket of a word. Some devices compare 32 bits only, and drivers differ in comparing values whose sign bit is
/// set.
const LAST_TICKET: u64 = i32::MAX as u64;

/// A word in memory, valid as long as the [`Words`] it came from.
#[derive(Debug, Clone, Copy)]
struct Word {
    host: NonNull<AtomicU64>,
    ptr: DevicePtr,
}

// SAFETY: it points to an atomic, valid on every thread until `Words::free`.
unsafe impl Send for Word {}

/// One use of a word.
#[derive(Debug)]
pub(crate) struct Ticket {
    word: Word,
    number: u64,
}

impl Ticket {
    /// Device address of the word.
    pub(crate) fn ptr(&self) -> DevicePtr {
        self.word.ptr
    }

    /// Value of the word at which this use ends; fits 32 bits.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: aligned, initialised, and live until `Words::free`, which is called when no ticket is left. Streams
        // access the word with the driver's atomic word operations.
        unsafe { self.word.host.as_ref() }
    }

    /// `true` if the word has reached the ticket. An acquire: writes before the store of the word are visible.
    pub(super) fn is_reached(&self) -> bool {
        self.word().load(Ordering::Acquire) >= self.number
    }

    /// Stores the ticket number, which ends waits for the ticket. A release of earlier writes.
    pub(super) fn reach(&self) {
        self.word().store(self.number, Ordering::Release);
    }

    /// Reference to the ticket for a host function of a stream.
    pub(crate) fn remote(&self) -> RemoteTicket {
        RemoteTicket(Self { word: self.word, number: self.number })
    }
}

/// A ticket signalled by a stream's host function. Its word is not reused before.
#[derive(Debug)]
pub(crate) struct RemoteTicket(Ticket);

impl RemoteTicket {
    pub(crate) fn reach(&self) {
        self.0.reach();
    }

    #[cfg(test)]
    pub(super) fn is_reached(&self) -> bool {
        self.0.is_reached()
    }
}

#[derive(Debug, Default)]
struct Pool {
    blocks: Vec<SignalMemory>,
    /// Free words, with the last ticket of each.
    free: Vec<(Word, u64)>,
    in_use: usize,
}

impl Pool {
    fn take(&mut self) -> Option<Ticket> {
        let (word, last) = self.free.pop()?;
        self.in_use += 1;
        Some(Ticket { word, number: last + 1 })
    }
}

/// Words of a device.
#[derive(Debug)]
pub(crate) struct Words {
    pool: Mutex<Pool>,
    /// Signals of streams are discarded.
    discard: AtomicBool,
    /// Error that reported the device as lost.
    lost: OnceLock<Error>,
    /// Device that owns the memory, if it was closed while threads may read the words.
    device: OnceLock<Arc<dyn BackendDevice>>,
    /// A word is not reused after this ticket.
    last_ticket: u64,
}

impl Default for Words {
    fn default() -> Self {
        Self::new(LAST_TICKET)
    }
}

impl Words {
    fn new(last_ticket: u64) -> Self {
        let (discard, lost, device) = (AtomicBool::new(false), OnceLock::new(), OnceLock::new());
        Self { pool: Mutex::default(), discard, lost, device, last_ticket }
    }

    /// Returns a ticket of a free word. Allocates memory if all words are in use.
    ///
    /// # Errors
    /// Errors of `allocate`.
    pub(super) fn take(&self, allocate: impl FnOnce() -> Result<SignalMemory>) -> Result<Ticket> {
        if let Some(ticket) = self.lock().take() {
            return Ok(ticket);
        }
        // Without the lock, which the bridge takes to return words: the driver may wait for its streams here, and they
        // may wait for the bridge.
        let block = allocate()?;
        let mut pool = self.lock();
        pool.blocks.push(block);
        pool.free.extend(words(block).map(|word| (word, 0)));
        pool.take().ok_or_else(|| {
            Error::new(
                ErrorKind::Driver,
                "BackendDevice::allocate_signal_memory",
                "the backend returned memory smaller than a word",
            )
        })
    }

    /// Returns a ticket that has ended or that no stream uses.
    pub(crate) fn put(&self, ticket: Ticket) {
        // An unused ticket is skipped.
        ticket.reach();
        let mut pool = self.lock();
        pool.in_use -= 1;
        if ticket.number < self.last_ticket {
            pool.free.push((ticket.word, ticket.number));
        }
    }

    /// Frees all memory; leaks it if a word is in use. `report` gets failures.
    ///
    /// # Safety
    /// No stream waits for a word, or writes one whose ticket was returned or retired.
    pub(crate) unsafe fn free(&self, device: &dyn BackendDevice, report: impl Fn(&Error, SignalMemory)) {
        let pool = std::mem::take(&mut *self.lock());
        if pool.in_use > 0 {
            log!(
                warn,
                words = pool.in_use,
                "streams may still write to signal memory of a closed device; it is leaked"
            );
            return;
        }
        for block in pool.blocks {
            // SAFETY: the memory is this device's; the caller guarantees that no stream uses it.
            if let Err(error) = unsafe { device.free_signal_memory(block) } {
                report(&error, block);
            }
        }
    }

    /// Keeps the closed device alive while a thread may read a word.
    pub(super) fn keep(&self, device: Arc<dyn BackendDevice>) {
        if self.device.set(device).is_err() {
            log!(debug, "the device of the words is already kept");
        }
    }

    /// Records that a wait is about to be released without its data. The stream, and streams that wait for it, still
    /// write words, whose signals are discarded. Called before the stream's ticket is signalled.
    pub(super) fn discard_signals(&self) {
        self.discard.store(true, Ordering::Release);
    }

    /// `true` if [`Words::discard_signals`] was called. If so, a signalled ticket may come from a stream that ran
    /// without its data.
    pub(super) fn discards_signals(&self) -> bool {
        self.discard.load(Ordering::Acquire)
    }

    /// Records that the device is lost.
    pub(super) fn set_lost(&self, error: Error) {
        if let Err(error) = self.lost.set(error) {
            log!(debug, %error, "the device was already lost");
        } else if let Some(error) = self.lost() {
            log!(error, %error, "the device is lost; pending signals over bridges are dropped");
        }
    }

    /// Retires a ticket that a stream may still signal: its word is never reused. It is freed with all words when no
    /// stream is left.
    pub(super) fn retire(&self, _ticket: Ticket) {
        self.lock().in_use -= 1;
    }

    /// Error that reported the device as lost, if any.
    pub(super) fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    /// Number of words in use.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.lock().in_use
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        unpoisoned(self.pool.lock())
    }
}

fn words(block: SignalMemory) -> impl Iterator<Item = Word> {
    const SIZE: usize = size_of::<AtomicU64>();
    let last = block.size.saturating_sub(SIZE);
    let enough = block.size >= SIZE;
    (0..=last).step_by(SPACING).filter(move |_| enough).map(move |offset| {
        // SAFETY: a word at the offset is inside the block, and the offset is a multiple of the alignment.
        let host = unsafe { block.host.add(offset) }.cast();
        Word { host, ptr: block.ptr.offset(offset as u64) }
    })
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Signal memory of `size` bytes, at device address 4096.
    fn memory(size: usize) -> SignalMemory {
        let words = Vec::leak(vec![0_u64; size.div_ceil(8)]);
        SignalMemory { host: NonNull::from(words).cast(), ptr: DevicePtr::new(4096), size }
    }

    fn must_not_allocate() -> Result<SignalMemory> {
        panic!("a free word exists")
    }

    #[test]
    fn a_word_is_reused_until_its_last_ticket() {
        let words = Words::new(3);
        let mut allocated = 0;
        for round in 0..7 {
            for number in 1..=3 {
                let ticket = words.take(|| {
                    allocated += 1;
                    Ok(memory(8))
                });
                let ticket = ticket.expect("a word");
                assert_eq!((ticket.number(), ticket.is_reached()), (number, false));
                words.put(ticket);
            }
            assert_eq!(allocated, round + 1, "one word is enough for three tickets");
        }
        assert_eq!(words.in_use(), 0);
    }

    #[test]
    fn tickets_fit_the_words_of_every_driver() {
        assert_eq!(Words::default().last_ticket, 0x7fff_ffff);
    }

    #[test]
    fn words_are_spaced_and_inside_their_memory() {
        for (size, count) in [(8, 1), (16, 1), (71, 1), (72, 2), (256, 4), (4096, 64)] {
            let words = Words::default();
            let first = words.take(|| Ok(memory(size))).expect("a word");
            let rest = (1..count).map(|_| words.take(must_not_allocate).expect("a word"));
            let mut addresses: Vec<u64> = std::iter::once(first).chain(rest).map(|t| t.ptr().get()).collect();
            addresses.sort_unstable();
            assert_eq!(addresses, (0..count).map(|index| 4096 + index * 64).collect::<Vec<_>>(), "{size} bytes");
            words.take(|| Err(Error::invalid("allocate", "no more"))).expect_err("all are in use");
            assert_eq!(words.in_use() as u64, count);
        }
        let words = Words::default();
        let error = words.take(|| Ok(memory(7))).expect_err("smaller than a word");
        assert!(error.to_string().contains("smaller than a word"), "{error}");
    }
}
