//! Tracing of the driver's functions: one `tracing` event before each call and one after it.
//!
//! A call that crashes or hangs has no second event. Without a subscriber, a call costs one additional relaxed load.

mod shown;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::Level;
use tracing::level_filters::LevelFilter;

pub use shown::Shown;

use crate::status::Status;

/// `target` of the events, for a subscriber's filter: `gpu_interop::driver_call=trace`. Their level is `TRACE`.
///
/// Both events of a call have the fields `call`, an increasing number that pairs them, and `function`. The first has
/// `arguments`, a text: pointers and values of more than 32 bits in hexadecimal, others in decimal, descriptors and the
/// first element of batches by field. The second has `code`, the status, `made`, a text with the values that a
/// successful call wrote to its out pointers, and `nanoseconds`, the duration. Both are emitted on the thread of the
/// call.
///
/// Two kinds of calls are not traced: queries of the current context or device, which precede almost every call, and
/// queries of the names of status codes.
pub const DRIVER_CALL: &str = "gpu_interop::driver_call";

/// Function of a driver.
pub trait DriverFunction: Copy {
    /// Tuple of its arguments.
    type Arguments;

    /// Calls the function between the two events of [`DRIVER_CALL`]. `name` is its name in the vendor's documentation.
    ///
    /// # Safety
    /// The requirements of the function itself. Each pointer to a number, or to a descriptor or parameters of
    /// [`abi`](crate::abi), is null or valid for reads of one element.
    unsafe fn traced(self, name: &'static str, arguments: Self::Arguments) -> Status;
}

macro_rules! driver_function {
    ($($argument:ident),*) => {
        impl<$($argument: Shown + Copy),*> DriverFunction for unsafe extern "system" fn($($argument),*) -> Status {
            type Arguments = ($($argument,)*);

            #[inline]
            #[allow(non_snake_case, reason = "one name for a type and its value")]
            unsafe fn traced(self, name: &'static str, arguments: Self::Arguments) -> Status {
                /// Takes the arguments by value: taking their addresses in the caller would cost every call a store.
                #[cold]
                #[inline(never)]
                unsafe fn call_traced<$($argument: Shown + Copy),*>(
                    function: unsafe extern "system" fn($($argument),*) -> Status,
                    name: &'static str,
                    ($($argument,)*): ($($argument,)*),
                ) -> Status {
                    // SAFETY: the caller's promise, for the call and for the pointers.
                    unsafe { between_events(name, &[$(&$argument),*], || function($($argument),*)) }
                }
                let ($($argument,)*) = arguments;
                if Level::TRACE <= LevelFilter::current() {
                    // A new tuple, which only this branch stores. SAFETY: the caller's promise.
                    return unsafe { call_traced(self, name, ($($argument,)*)) };
                }
                // SAFETY: the caller's promise.
                unsafe { self($($argument),*) }
            }
        }
    };
}

driver_function!(A);
driver_function!(A, B);
driver_function!(A, B, C);
driver_function!(A, B, C, D);
driver_function!(A, B, C, D, E);
driver_function!(A, B, C, D, E, F);
driver_function!(A, B, C, D, E, F, G);
driver_function!(A, B, C, D, E, F, G, H);
driver_function!(A, B, C, D, E, F, G, H, I);
driver_function!(A, B, C, D, E, F, G, H, I, J);
driver_function!(A, B, C, D, E, F, G, H, I, J, K);

/// Calls a function between two events.
///
/// # Safety
/// As for [`DriverFunction::traced`], about the pointers among the arguments.
unsafe fn between_events(name: &'static str, arguments: &[&dyn Shown], call: impl FnOnce() -> Status) -> Status {
    static CALLS: AtomicU64 = AtomicU64::new(1);
    // Relaxed: the counter orders nothing else.
    let number = CALLS.fetch_add(1, Ordering::Relaxed);
    tracing::trace!(
        target: DRIVER_CALL, call = number, function = name, arguments = %Arguments(arguments), "calls"
    );
    let start = Instant::now();
    let returned = call();
    let nanoseconds = u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX);
    let made = if returned == Status::SUCCESS { arguments } else { &[] };
    tracing::trace!(
        target: DRIVER_CALL, call = number, function = name, code = returned.0, made = %Made(made), nanoseconds,
        "returned"
    );
    returned
}

/// Displays the arguments of a call; its creator vouches for the pointers.
struct Arguments<'a>(&'a [&'a dyn Shown]);

impl fmt::Display for Arguments<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, argument) in self.0.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            // SAFETY: the caller's promise.
            unsafe { argument.argument(f) }?;
        }
        Ok(())
    }
}

/// Displays the values that a successful call wrote to its out pointers.
struct Made<'a>(&'a [&'a dyn Shown]);

impl fmt::Display for Made<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: the caller's promise.
        let made = self.0.iter().filter_map(|argument| unsafe { argument.made() });
        for (index, number) in made.enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            shown::number(number, f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
