//! Words of signal memory, and who uses which.
//!
//! A word counts: every use takes the next ticket, and is over once the word has reached it. So a word can be used again
//! at once, even if the stream that waits for an earlier ticket has not looked yet: it only ever finds more.

use std::ptr::NonNull;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use crate::backend::{BackendDevice, DevicePtr, SignalMemory};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::{AtomicBool, AtomicU64, Mutex, MutexGuard, lock};

/// Words lie a cache line apart where the memory allows it: each has its own writer.
const SPACING: usize = 64;
/// Words that can wait for 32 bits only are used no longer before their sign changes: drivers differ in what "reached"
/// means then.
const LAST_TICKET: u64 = i32::MAX as u64;

/// A word in memory that lives as long as the [`Words`] it came from.
#[derive(Debug, Clone, Copy)]
struct Word {
    host: NonNull<AtomicU64>,
    ptr: DevicePtr,
}

// SAFETY: what it points to is atomic, and valid on every thread until `Words::free`.
unsafe impl Send for Word {}

/// One use of a word.
#[derive(Debug)]
pub(crate) struct Ticket {
    word: Word,
    number: u64,
}

impl Ticket {
    /// The word's address for streams.
    pub(crate) fn ptr(&self) -> DevicePtr {
        self.word.ptr
    }

    /// What the word is once this use is over: fits 32 bits.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn word(&self) -> &AtomicU64 {
        // SAFETY: aligned, initialised, and live until `Words::free`, which is called when no ticket is left. Streams
        // access the word too, as atomically as the driver does.
        unsafe { self.word.host.as_ref() }
    }

    /// Whether the word has come this far. What was written before the word was is visible then.
    pub(super) fn is_reached(&self) -> bool {
        self.word().load(Ordering::Acquire) >= self.number
    }

    /// Lets go whoever waits for this. What was written before is visible to it.
    pub(super) fn reach(&self) {
        self.word().store(self.number, Ordering::Release);
    }

    /// The host's way to reach the word, for a function that a stream calls.
    pub(crate) fn remote(&self) -> RemoteTicket {
        RemoteTicket(Self { word: self.word, number: self.number })
    }
}

/// A ticket that a stream's host function reaches. Its word is not used again before.
#[derive(Debug)]
pub(crate) struct RemoteTicket(Ticket);

impl RemoteTicket {
    pub(crate) fn reach(&self) {
        self.0.reach();
    }
}

#[derive(Debug, Default)]
struct Pool {
    blocks: Vec<SignalMemory>,
    /// Words that nobody uses, with the last ticket of each.
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

/// The words of a device.
#[derive(Debug)]
pub(crate) struct Words {
    pool: Mutex<Pool>,
    /// What streams write is worth nothing any more.
    discard: AtomicBool,
    /// Why streams write nothing any more.
    lost: OnceLock<Error>,
    /// The device whose memory they are in, once it was closed without them.
    device: OnceLock<Arc<dyn BackendDevice>>,
    /// After this a word is not used again.
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

    /// A use of a word. Allocates memory if all words are in use.
    ///
    /// # Errors
    /// What `allocate` answers.
    pub(super) fn take(&self, allocate: impl FnOnce() -> Result<SignalMemory>) -> Result<Ticket> {
        if let Some(ticket) = self.lock().take() {
            return Ok(ticket);
        }
        // Without the lock, which the bridge takes to put words back: a driver may wait here for what its streams do, and
        // they may wait for the bridge.
        let block = allocate()?;
        let mut pool = self.lock();
        pool.blocks.push(block);
        pool.free.extend(words(block).map(|word| (word, 0)));
        pool.take().ok_or_else(|| {
            Error::new(
                ErrorKind::Driver,
                "BackendDevice::allocate_signal_memory",
                "the backend gave memory without room for a word",
            )
        })
    }

    /// Takes a ticket back that is over, or that no stream ever heard of.
    pub(crate) fn put(&self, ticket: Ticket) {
        // Behind a ticket that no stream heard of the count goes on from it.
        ticket.reach();
        let mut pool = self.lock();
        pool.in_use -= 1;
        if ticket.number < self.last_ticket {
            pool.free.push((ticket.word, ticket.number));
        }
    }

    /// Frees all memory, unless a word is still in use: then it is leaked.
    ///
    /// # Safety
    /// No stream waits for a word any more, or writes one whose ticket was put back or retired.
    pub(crate) unsafe fn free(&self, device: &dyn BackendDevice) {
        let pool = std::mem::take(&mut *self.lock());
        if pool.in_use > 0 {
            tracing::warn!(
                words = pool.in_use,
                "streams may still write to signal memory of a closed device; it is leaked"
            );
            return;
        }
        for block in pool.blocks {
            // SAFETY: it came from this device; the caller's promise.
            if let Err(error) = unsafe { device.free_signal_memory(block) } {
                tracing::error!(%error, "freeing signal memory failed; it is leaked");
            }
        }
    }

    /// Keeps the device, which is closed, as long as somebody may read a word.
    pub(super) fn keep(&self, device: Arc<dyn BackendDevice>) {
        if self.device.set(device).is_err() {
            tracing::debug!("the words of a closed device were kept before");
        }
    }

    /// Notes that a stream is about to be let go without the data that it waits for. It writes words all the same, and so
    /// do the streams that wait for it. Called before the stream's ticket is reached.
    pub(super) fn discard_signals(&self) {
        self.discard.store(true, Ordering::Release);
    }

    /// Whether [`Words::become_worthless`] was called. Of a ticket that was seen to be reached: whether it may have been by
    /// a stream without its data.
    pub(super) fn discards_signals(&self) -> bool {
        self.discard.load(Ordering::Acquire)
    }

    /// Notes that no stream runs any more, because of `error`.
    pub(super) fn set_lost(&self, error: Error) {
        if let Err(error) = self.lost.set(error) {
            tracing::debug!(%error, "the device was lost before");
        } else if let Some(error) = self.lost() {
            tracing::error!(%error, "the device is lost; what its streams had to signal over bridges is not carried");
        }
    }

    /// Takes a ticket that a stream may still reach, so that its word is never used again. Like all words it goes when no
    /// stream is left.
    pub(super) fn retire(&self, _ticket: Ticket) {
        self.lock().in_use -= 1;
    }

    /// Why no stream runs any more, if so.
    pub(super) fn lost(&self) -> Option<&Error> {
        self.lost.get()
    }

    /// How many words are in use.
    #[cfg(test)]
    pub(super) fn in_use(&self) -> usize {
        self.lock().in_use
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        lock(&self.pool)
    }
}

fn words(block: SignalMemory) -> impl Iterator<Item = Word> {
    const SIZE: usize = size_of::<AtomicU64>();
    let last = block.size.saturating_sub(SIZE);
    let enough = block.size >= SIZE;
    (0..=last).step_by(SPACING).filter(move |_| enough).map(move |offset| {
        // SAFETY: the offset is inside of the block, with room for a word behind it, and a multiple of its alignment.
        let host = unsafe { block.host.add(offset) }.cast();
        Word { host, ptr: block.ptr.offset(offset as u64) }
    })
}

#[cfg(test)]
#[cfg(not(loom))]
mod tests {
    use super::*;

    /// Memory for this many words, at the address 4096 for streams.
    fn memory(size: usize) -> SignalMemory {
        let words = Vec::leak(vec![0_u64; size.div_ceil(8)]);
        SignalMemory { host: NonNull::from(words).cast(), ptr: DevicePtr::new(4096), size }
    }

    fn must_not_allocate() -> Result<SignalMemory> {
        panic!("there is a word")
    }

    #[test]
    fn a_word_is_used_again_until_its_last_ticket() {
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
    fn words_lie_apart_and_inside_of_their_memory() {
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
        let error = words.take(|| Ok(memory(7))).expect_err("no room");
        assert!(error.to_string().contains("without room"), "{error}");
    }
}
