//! Words of signal memory, and who uses which.
//!
//! A word counts: every use takes the next ticket, and is over once the word has reached it. So a word can be used again
//! at once, even if the stream that waits for an earlier ticket has not looked yet: it only ever finds more.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::backend::{BackendDevice, DevicePtr, SignalMemory};
use crate::error::Result;

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

/// The words of a device.
#[derive(Debug, Default)]
pub(crate) struct Words {
    pool: Mutex<Pool>,
}

impl Words {
    /// A use of a word. Allocates memory if all words are in use.
    ///
    /// # Errors
    /// What the device answers (`cuMemHostAlloc`, `hipExtMallocWithFlags`).
    pub(crate) fn take(&self, device: &dyn BackendDevice) -> Result<Ticket> {
        let mut pool = self.lock();
        if pool.free.is_empty() {
            let block = device.allocate_signal_memory()?;
            pool.blocks.push(block);
            pool.free.extend(words(block).map(|word| (word, 0)));
        }
        // There is one: an allocation has at least one word.
        let Some((word, last)) = pool.free.pop() else {
            return Err(crate::Error::new(
                crate::ErrorKind::Driver,
                "BackendDevice::allocate_signal_memory",
                "the backend gave memory without room for a word",
            ));
        };
        pool.in_use += 1;
        Ok(Ticket { word, number: last + 1 })
    }

    /// Takes a ticket back that is over, or that no stream ever heard of.
    pub(crate) fn put(&self, ticket: Ticket) {
        // Behind a ticket that no stream heard of the count goes on from it.
        ticket.reach();
        let mut pool = self.lock();
        pool.in_use -= 1;
        if ticket.number < LAST_TICKET {
            pool.free.push((ticket.word, ticket.number));
        }
    }

    /// Frees all memory, unless a word is still in use: then it is leaked.
    ///
    /// # Safety
    /// No stream waits for a word any more, or writes one whose ticket was put back.
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

    fn lock(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
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
