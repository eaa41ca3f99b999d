//! Every call of a driver's function, as two events of `tracing`: one before it, one after.
//!
//! A call that does not return, because the driver crashed or hangs, is one whose second event never came. While nobody
//! subscribes to the events, a call costs one relaxed load more.

mod shown;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use tracing::Level;
use tracing::level_filters::LevelFilter;

pub use shown::Shown;

use crate::status::Status;

/// The `target` of the events, for a subscriber's filter: `gpu_interop::driver_call=trace`. Their level is `TRACE`.
///
/// Both events of a call have the fields `call`, a number that pairs them and grows from call to call, and `function`.
/// The first has `arguments`, a text: pointers and what has more than 32 bits in hexadecimal, the rest in decimal, of
/// descriptors and batches what they say. The second has `code`, the number that the function returned, `made`, a text:
/// what it wrote to where the library asked it to, if it succeeded, and `nanoseconds`, how long it took. They come on the
/// thread of the call.
///
/// Not among them: the questions which context or device is current, that precede almost every call, and those for the
/// names of status codes.
pub const DRIVER_CALL: &str = "gpu_interop::driver_call";

/// A function of a driver.
pub trait DriverFunction: Copy {
    /// Its arguments, as a tuple.
    type Arguments;

    /// Calls it, and tells whoever subscribes to [`DRIVER_CALL`]. `name` is the function's in the vendor's documentation.
    ///
    /// # Safety
    /// What the function asks for. Each pointer to a number, or to a descriptor or parameters of [`abi`](crate::abi), is
    /// null or valid for reads of one.
    unsafe fn traced(self, name: &'static str, arguments: Self::Arguments) -> Status;
}

macro_rules! driver_function {
    ($($argument:ident),*) => {
        impl<$($argument: Shown + Copy),*> DriverFunction for unsafe extern "system" fn($($argument),*) -> Status {
            type Arguments = ($($argument,)*);

            #[inline]
            #[allow(non_snake_case, reason = "one name for a type and its value")]
            unsafe fn traced(self, name: &'static str, arguments: Self::Arguments) -> Status {
                /// The arguments come as values: those that have an address cost every call a store.
                #[cold]
                #[inline(never)]
                unsafe fn told<$($argument: Shown + Copy),*>(
                    function: unsafe extern "system" fn($($argument),*) -> Status,
                    name: &'static str,
                    ($($argument,)*): ($($argument,)*),
                ) -> Status {
                    // SAFETY: the caller's promise, for both.
                    unsafe { between_events(name, &[$(&$argument),*], || function($($argument),*)) }
                }
                if Level::TRACE <= LevelFilter::current() {
                    // SAFETY: the caller's promise.
                    return unsafe { told(self, name, arguments) };
                }
                let ($($argument,)*) = arguments;
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
    // Relaxed: the number is all that it says.
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

/// The arguments of a call about to be made, whose caller has vouched for the pointers.
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

/// What a call that succeeded wrote to its arguments.
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
