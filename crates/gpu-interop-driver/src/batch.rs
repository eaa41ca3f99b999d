//! Encoding of signal and wait batches as an array of handles and an array of parameter blocks.
//!
//! A block has 144 bytes, of which a timeline or binary semaphore uses 8. Each thread reuses its blocks, whose other
//! bytes stay 0, so that a batch writes two words per semaphore and allocates nothing for up to 64 semaphores.

use std::cell::RefCell;
use std::ffi::c_uint;
use std::mem::offset_of;

use gpu_interop_core::backend::{BlockLayout, RawSemaphore, RawSignal, RawWait, SemaphoreBlocks};
use gpu_interop_core::{Error, Result, SignalParams, WaitParams};

use crate::abi::{SemaphoreSignalParams, SemaphoreWaitParams};

/// Layouts of blocks that core prepares.
pub(crate) const BLOCKS: SemaphoreBlocks = {
    const WORD: usize = size_of::<u64>();
    const {
        assert!(
            size_of::<SemaphoreSignalParams>().is_multiple_of(WORD)
                && size_of::<SemaphoreWaitParams>().is_multiple_of(WORD)
        );
        assert!(align_of::<SemaphoreSignalParams>() <= align_of::<u64>());
        assert!(align_of::<SemaphoreWaitParams>() <= align_of::<u64>());
    }
    let signal = BlockLayout {
        words: size_of::<SemaphoreSignalParams>() / WORD,
        value: offset_of!(SemaphoreSignalParams, fence_value) / WORD,
    };
    let wait = BlockLayout {
        words: size_of::<SemaphoreWaitParams>() / WORD,
        value: offset_of!(SemaphoreWaitParams, fence_value) / WORD,
    };
    // Core is faster with this layout.
    assert!(signal.words == 18 && signal.value == 0 && wait.words == 18 && wait.value == 0);
    SemaphoreBlocks { signal, wait }
};

/// Number of semaphores of a batch that core prepared, for a driver that takes `limit` in a call.
///
/// # Errors
/// `Unsupported` above the limit, `InvalidArgument` above `c_uint::MAX`.
#[inline]
pub(crate) fn prepared(operation: &'static str, semaphores: usize, limit: usize) -> Result<c_uint> {
    one_call(operation, semaphores, limit)?;
    c_uint::try_from(semaphores).map_err(|_| Error::invalid(operation, "the batch is too long"))
}

/// Number of blocks that each thread reuses.
const BUFFERED: usize = 64;

/// Rejects a batch that exceeds the limit of one call. A batch that fails must have enqueued nothing, which a batch
/// split into several calls cannot guarantee.
#[inline]
pub(crate) fn one_call(operation: &'static str, semaphores: usize, limit: usize) -> Result<()> {
    if semaphores <= limit { Ok(()) } else { Err(too_many(operation, semaphores, limit)) }
}

#[cold]
fn too_many(operation: &'static str, semaphores: usize, limit: usize) -> Error {
    let message =
        format!("this driver takes {limit} in a call; pass at most {limit} at a time, or install a newer driver");
    Error::unsupported(operation, message).with_context("semaphores", semaphores)
}

/// Calls `call` with a batch of signals: handles, parameter blocks and their number. Both arrays live until `call`
/// returns.
///
/// # Errors
/// `Unsupported` for parameters without an encoding, `InvalidArgument` for more than `c_uint::MAX` signals. `call` is
/// not called in either case.
#[inline]
pub fn with_signals<R>(
    operation: &'static str,
    signals: &[RawSignal],
    call: impl FnOnce(*const usize, *const SemaphoreSignalParams, c_uint) -> R,
) -> Result<R> {
    // Fast path for a single timeline signal: a block on the stack.
    if let [RawSignal { semaphore, params: SignalParams::Value(fence_value) }] = signals {
        let block = SemaphoreSignalParams { fence_value: *fence_value, ..SemaphoreSignalParams::BINARY };
        let handle = semaphore.get();
        return Ok(call(&raw const handle, &raw const block, 1));
    }
    with_blocks(operation, signals, call)
}

/// Counterpart of [`with_signals`] for waits.
///
/// # Errors
/// As for [`with_signals`].
#[inline]
pub fn with_waits<R>(
    operation: &'static str,
    waits: &[RawWait],
    call: impl FnOnce(*const usize, *const SemaphoreWaitParams, c_uint) -> R,
) -> Result<R> {
    if let [RawWait { semaphore, params: WaitParams::Value(fence_value) }] = waits {
        let block = SemaphoreWaitParams { fence_value: *fence_value, ..SemaphoreWaitParams::BINARY };
        let handle = semaphore.get();
        return Ok(call(&raw const handle, &raw const block, 1));
    }
    with_blocks(operation, waits, call)
}

/// Encodes a batch into this thread's blocks, or into new ones if it does not fit. Not inlined: its stack frame would
/// slow a single signal or wait down.
#[inline(never)]
fn with_blocks<E: Element, R>(
    operation: &'static str,
    batch: &[E],
    call: impl FnOnce(*const usize, *const E::Block, c_uint) -> R,
) -> Result<R> {
    let number = c_uint::try_from(batch.len()).map_err(|_| Error::invalid(operation, "the batch is too long"))?;
    let encode_all = |handles: &mut [usize], blocks: &mut [E::Block]| {
        let mut dirty = false;
        let mut encoded = Ok(());
        for ((element, handle), block) in batch.iter().zip(&mut *handles).zip(&mut *blocks) {
            *handle = element.semaphore().get();
            match element.fence_value() {
                Some(value) => E::set_fence_value(block, value),
                None => {
                    dirty = true;
                    match element.encode() {
                        Some(params) => *block = params,
                        None => {
                            encoded = Err(Error::unsupported(operation, "the driver has no parameters of this kind"))
                        }
                    }
                }
            }
        }
        /// Zeroes the blocks when dropped, also when `call` panics.
        struct ZeroOnDrop<'a, E: Element>(&'a mut [E::Block], bool);
        impl<E: Element> Drop for ZeroOnDrop<'_, E> {
            fn drop(&mut self) {
                if self.1 {
                    self.0.fill(E::ZERO);
                }
            }
        }
        let blocks = ZeroOnDrop::<E>(blocks, dirty);
        encoded.map(|()| call(handles.as_ptr(), blocks.0.as_ptr(), number))
    };
    if batch.len() <= BUFFERED {
        E::with_buffers(|buffers| encode_all(&mut buffers.handles, &mut buffers.blocks))
    } else {
        encode_all(&mut vec![0; batch.len()], &mut vec![E::ZERO; batch.len()])
    }
}

/// Element of a batch.
trait Element {
    type Block: Copy + 'static;
    /// Block whose bytes are all 0.
    const ZERO: Self::Block;

    fn semaphore(&self) -> RawSemaphore;
    /// Only non-zero field of the block: the value of a timeline, 0 for a binary semaphore, `None` for other kinds.
    fn fence_value(&self) -> Option<u64>;
    fn set_fence_value(block: &mut Self::Block, value: u64);
    /// Encodes a whole block. Returns `None` for kinds without an encoding.
    fn encode(&self) -> Option<Self::Block>;
    /// Runs `action` with this thread's blocks. On entry and on return only their fence values may be non-zero.
    fn with_buffers<R>(action: impl FnOnce(&mut Buffers<Self::Block>) -> R) -> R;
}

/// Buffers that each thread reuses.
struct Buffers<B> {
    handles: [usize; BUFFERED],
    blocks: [B; BUFFERED],
}

macro_rules! element {
    ($element:ty, $params:ident, $block:ty) => {
        impl Element for $element {
            type Block = $block;
            const ZERO: $block = <$block>::BINARY;

            #[inline]
            fn semaphore(&self) -> RawSemaphore {
                self.semaphore
            }

            #[inline]
            fn fence_value(&self) -> Option<u64> {
                match self.params {
                    $params::Value(value) => Some(value),
                    $params::Binary => Some(0),
                    _ => None,
                }
            }

            #[inline]
            fn set_fence_value(block: &mut $block, value: u64) {
                block.fence_value = value;
            }

            fn encode(&self) -> Option<$block> {
                <$block>::new(&self.params)
            }

            #[inline]
            fn with_buffers<R>(action: impl FnOnce(&mut Buffers<$block>) -> R) -> R {
                const ZERO: Buffers<$block> = Buffers { handles: [0; BUFFERED], blocks: [<$block>::BINARY; BUFFERED] };
                thread_local! {
                    // Untouched zero pages take no memory, and the type needs no destructor at thread exit.
                    static BATCH: RefCell<Buffers<$block>> = const { RefCell::new(ZERO) };
                }
                BATCH.with(|buffers| match buffers.try_borrow_mut() {
                    Ok(mut kept) => action(&mut kept),
                    // Re-entrant call: the driver called back into this thread.
                    Err(_) => action(&mut { ZERO }),
                })
            }
        }
    };
}

element!(RawSignal, SignalParams, SemaphoreSignalParams);
element!(RawWait, WaitParams, SemaphoreWaitParams);

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use gpu_interop_core::ErrorKind;

    use super::*;

    fn signals(params: &[SignalParams]) -> Vec<RawSignal> {
        let numbered = params.iter().zip(1..);
        numbered.map(|(params, number)| RawSignal { semaphore: RawSemaphore::new(number), params: *params }).collect()
    }

    /// Returns the arrays that a driver receives for a batch.
    fn seen(batch: &[RawSignal]) -> (Vec<usize>, Vec<SemaphoreSignalParams>) {
        with_signals("op", batch, |handles, blocks, number| {
            let number = usize::try_from(number).expect("small");
            // SAFETY: both arrays have `number` elements, as `with_signals` documents.
            unsafe {
                (
                    std::slice::from_raw_parts(handles, number).to_vec(),
                    std::slice::from_raw_parts(blocks, number).to_vec(),
                )
            }
        })
        .expect("encodes")
    }

    #[test]
    fn batches_of_every_size_are_encoded_in_order() {
        // Large batches come first: their leftovers must not appear in smaller ones.
        for size in [1, 200, 65, 64, 63, 9, 8, 7, 2, 1] {
            let params: Vec<_> = (0..size).map(|index| SignalParams::Value(size * 1000 + index)).collect();
            let (handles, blocks) = seen(&signals(&params));
            assert!(handles.iter().copied().eq(1..=usize::try_from(size).expect("small")));
            let expected = |fence_value| SemaphoreSignalParams { fence_value, ..SemaphoreSignalParams::BINARY };
            assert!(blocks.iter().copied().eq((0..size).map(|index| expected(size * 1000 + index))), "{size}");
        }
    }

    #[test]
    fn other_kinds_leave_nothing_in_the_next_batch() {
        let mixed = [SignalParams::Key(7), SignalParams::Value(5), SignalParams::Binary, SignalParams::Key(9)];
        let (_, blocks) = seen(&signals(&mixed));
        let keys: Vec<_> = blocks.iter().map(|block| (block.key, block.fence_value)).collect();
        assert_eq!(keys, [(7, 0), (0, 5), (0, 0), (9, 0)]);
        let (_, blocks) = seen(&signals(&[SignalParams::Binary; 4]));
        assert_eq!(blocks, [SemaphoreSignalParams::BINARY; 4]);
    }

    #[test]
    fn a_panicking_call_leaves_nothing_in_the_next_batch() {
        let keys = signals(&[SignalParams::Key(7), SignalParams::Key(8)]);
        let panics =
            || -> Result<()> { with_signals("op", &keys, |_, _, _| std::panic::resume_unwind(Box::new("on purpose"))) };
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(panics)).is_err());
        let (_, blocks) = seen(&signals(&[SignalParams::Binary; 2]));
        assert_eq!(blocks, [SemaphoreSignalParams::BINARY; 2]);
    }

    #[test]
    fn key_waits_keep_their_timeout() {
        let key = WaitParams::Key { key: 3, timeout: Some(Duration::from_millis(20)) };
        let waits = [key, WaitParams::Value(6)].map(|params| RawWait { semaphore: RawSemaphore::new(1), params });
        let blocks = with_waits("op", &waits, |_, blocks, number| {
            assert_eq!(number, 2);
            // SAFETY: the array has `number` elements, which is 2.
            unsafe { [blocks.read(), blocks.add(1).read()] }
        })
        .expect("encodes");
        assert_eq!((blocks[0].key, blocks[0].timeout_ms, blocks[0].fence_value), (3, 20, 0));
        assert_eq!((blocks[1].key, blocks[1].timeout_ms, blocks[1].fence_value), (0, 0, 6));
    }

    #[test]
    fn nested_batches_do_not_share_buffers() {
        let outer = signals(&[SignalParams::Value(1), SignalParams::Value(2)]);
        let blocks = with_signals("op", &outer, |_, blocks, _| {
            let (_, inner) = seen(&signals(&[SignalParams::Value(8), SignalParams::Value(9)]));
            assert_eq!((inner[0].fence_value, inner[1].fence_value), (8, 9));
            // SAFETY: as above.
            unsafe { [blocks.read(), blocks.add(1).read()] }
        })
        .expect("encodes");
        assert_eq!((blocks[0].fence_value, blocks[1].fence_value), (1, 2));
    }

    #[test]
    fn a_batch_over_the_limit_of_one_call_is_rejected() {
        for (semaphores, limit) in [(1, 1), (3, 3), (3, usize::MAX)] {
            one_call("op", semaphores, limit).expect("one call");
        }
        let error = one_call("op", 3, 2).expect_err("two calls");
        assert_eq!((error.kind(), error.operation()), (ErrorKind::Unsupported, "op"));
        assert!(
            error.to_string().contains("takes 2 in a call") && error.to_string().contains("semaphores: 3"),
            "{error}"
        );
    }
}
