//! Tracing of the driver's functions: one `tracing` event before each call and one after it.
//!
//! A call that crashes or hangs has no second event. Without a subscriber, a call costs one additional relaxed load.

use std::any::TypeId;
use std::ffi::c_int;
use std::fmt;
use std::fmt::Formatter;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use gpu_interop_core::backend::HostFunction;
use gpu_interop_core::handle::HandleType;
use gpu_interop_core::{MemoryHandleKind, SemaphoreHandleKind};
use tracing::Level;
use tracing::level_filters::LevelFilter;

use crate::abi::{
    Handle, MemoryBufferDesc, MemoryHandleDesc, SemaphoreHandleDesc, SemaphoreSignalParams, SemaphoreWaitParams,
};
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
        for (index, value) in made.enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            number(value, f)?;
        }
        Ok(())
    }
}

/// Argument of a driver's function.
pub trait Shown {
    /// Formats the argument.
    ///
    /// # Errors
    /// Errors of the formatter.
    ///
    /// # Safety
    /// A pointer to a descriptor, parameters or handles is null or valid for reads of one.
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result;

    /// Returns the number that a call wrote through this argument, if it points to one.
    ///
    /// # Safety
    /// The pointer is null or valid for reads.
    unsafe fn made(&self) -> Option<u64> {
        None
    }
}

/// Formats up to 32 bits (sizes, ordinals, flags) in decimal, more (handles, addresses) in hexadecimal.
fn number(number: u64, f: &mut Formatter<'_>) -> fmt::Result {
    if number <= u64::from(u32::MAX) { write!(f, "{number}") } else { write!(f, "{number:#x}") }
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl Shown for $number {
            unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
                number(u64::from(*self), f)
            }
        }
    )* };
}

numbers!(u8, u32, u64);

impl Shown for usize {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        number(*self as u64, f)
    }
}

impl Shown for i64 {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Shown for c_int {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Shown for HostFunction {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{self:p}")
    }
}

/// Reads the target of a pointer if it is a `T` and the pointer is not null.
///
/// # Safety
/// A pointer to a `T` is null or valid for reads of one.
unsafe fn at<P: 'static, T: Copy + 'static>(pointer: *const P) -> Option<T> {
    if TypeId::of::<P>() != TypeId::of::<T>() || pointer.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null and points to a `T`, so it is valid by the caller's promise.
    Some(unsafe { pointer.cast::<T>().read() })
}

fn address<T>(pointer: *const T, f: &mut Formatter<'_>) -> fmt::Result {
    if pointer.is_null() { f.write_str("null") } else { write!(f, "{pointer:p}") }
}

impl<T: 'static> Shown for *mut T {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        address(*self, f)
    }

    unsafe fn made(&self) -> Option<u64> {
        let pointer = self.cast_const();
        // SAFETY: the caller's promise, for each of the three.
        let (size, word, int) = unsafe { (at::<T, usize>(pointer), at::<T, u64>(pointer), at::<T, c_int>(pointer)) };
        size.map(|size| size as u64).or(word).or(int.map(|int| u64::from(int.cast_unsigned())))
    }
}

impl<T: 'static> Shown for *const T {
    unsafe fn argument(&self, f: &mut Formatter<'_>) -> fmt::Result {
        /// Displays the file descriptor in a handle of this type, if it is one.
        struct Fd(Option<HandleType>, Handle);
        impl fmt::Display for Fd {
            fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
                match self.0 {
                    // SAFETY: the handle is of this type.
                    Some(HandleType::Fd) => write!(f, ", fd {}", unsafe { self.1.fd }),
                    _ => Ok(()),
                }
            }
        }
        // SAFETY: the caller's promise, here and below.
        if let Some(desc) = unsafe { at::<T, MemoryHandleDesc>(*self) } {
            let MemoryHandleDesc { kind, handle, size, flags, .. } = desc;
            return write!(
                f,
                "{{type {kind}{}, size {size}, flags {flags}}}",
                Fd(MemoryHandleKind::from_number(kind).map(MemoryHandleKind::handle_type), handle)
            );
        }
        // SAFETY: as above.
        if let Some(MemoryBufferDesc { offset, size, flags, .. }) = unsafe { at(*self) } {
            return write!(f, "{{offset {offset}, size {size}, flags {flags}}}");
        }
        // SAFETY: as above.
        if let Some(SemaphoreHandleDesc { kind, handle, flags, .. }) = unsafe { at(*self) } {
            return write!(
                f,
                "{{type {kind}{}, flags {flags}}}",
                Fd(SemaphoreHandleKind::from_number(kind).map(SemaphoreHandleKind::handle_type), handle)
            );
        }
        // Batches: the first element. The length is a separate argument.
        // SAFETY: as above.
        if let Some(SemaphoreSignalParams { fence_value, key, flags, .. }) = unsafe { at(*self) } {
            return write!(f, "[{{value {fence_value}, key {key}, flags {flags}}}, ..]");
        }
        // SAFETY: as above.
        if let Some(SemaphoreWaitParams { fence_value, key, timeout_ms, flags, .. }) = unsafe { at(*self) } {
            return write!(f, "[{{value {fence_value}, key {key}, timeout {timeout_ms} ms, flags {flags}}}, ..]");
        }
        // SAFETY: as above.
        if let Some(handle) = unsafe { at::<T, usize>(*self) } {
            return write!(f, "[{handle:#x}, ..]");
        }
        address(*self, f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::ffi::{c_int, c_void};
    use std::sync::{Arc, Mutex};

    use tracing::field::{Field, Visit};
    use tracing::{Event, Metadata, Subscriber, span};

    use super::*;
    use crate::abi::MemoryBufferDesc;

    /// Subscriber that records the fields of every event.
    #[derive(Debug, Clone, Default)]
    struct Recorder(Arc<Mutex<Vec<Fields>>>);

    type Fields = BTreeMap<&'static str, String>;

    struct FieldVisitor(Fields);

    impl Visit for FieldVisitor {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            self.0.insert(field.name(), format!("{value:?}"));
        }

        fn record_str(&mut self, field: &Field, value: &str) {
            self.0.insert(field.name(), value.into());
        }
    }

    impl Subscriber for Recorder {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target() == DRIVER_CALL
        }

        fn new_span(&self, _span: &span::Attributes<'_>) -> span::Id {
            span::Id::from_u64(1)
        }

        fn record(&self, _span: &span::Id, _values: &span::Record<'_>) {}

        fn record_follows_from(&self, _span: &span::Id, _follows: &span::Id) {}

        fn event(&self, event: &Event<'_>) {
            let mut fields = FieldVisitor(Fields::new());
            event.record(&mut fields);
            self.0.lock().expect("no panic").push(fields.0);
        }

        fn enter(&self, _span: &span::Id) {}

        fn exit(&self, _span: &span::Id) {}
    }

    fn record_events(calls: impl FnOnce()) -> Vec<Fields> {
        let recorder = Recorder::default();
        tracing::subscriber::with_default(recorder.clone(), calls);
        std::mem::take(&mut recorder.0.lock().expect("no panic"))
    }

    unsafe extern "system" fn map(made: *mut u64, memory: usize, _desc: *const MemoryBufferDesc) -> Status {
        // SAFETY: the test's pointer is valid.
        unsafe { made.write(0x7f00_0000_1000) };
        if memory == 5 { Status::SUCCESS } else { Status::INVALID_VALUE }
    }

    unsafe extern "system" fn ask(_value: *mut c_int, _attribute: c_int, _nowhere: *mut c_void) -> Status {
        Status::SUCCESS
    }

    type Map = unsafe extern "system" fn(*mut u64, usize, *const MemoryBufferDesc) -> Status;
    type Ask = unsafe extern "system" fn(*mut c_int, c_int, *mut c_void) -> Status;

    #[test]
    fn a_call_emits_an_event_before_and_after() {
        let desc = MemoryBufferDesc::new(0, 4096);
        let call = |memory: usize| {
            let mut made = 0;
            // SAFETY: both pointers are valid.
            let status = unsafe { (map as Map).traced("map", (&raw mut made, memory, &raw const desc)) };
            assert_eq!((status == Status::SUCCESS, made), (memory == 5, 0x7f00_0000_1000));
        };
        let events = record_events(|| {
            call(5);
            call(6);
        });
        let field = |event: usize, name: &str| events[event].get(name).map(String::as_str);
        assert_eq!(events.len(), 4);
        for event in 0..4 {
            assert_eq!(field(event, "function"), Some("map"));
            assert_eq!(field(event, "call"), field(event / 2 * 2, "call"), "a pair has one number");
        }
        assert_ne!(field(0, "call"), field(2, "call"));
        let arguments = field(0, "arguments").expect("arguments");
        assert!(
            arguments.starts_with("0x") && arguments.ends_with(", 5, {offset 0, size 4096, flags 0}"),
            "{arguments}"
        );
        assert_eq!((field(1, "code"), field(1, "made")), (Some("0"), Some("0x7f0000001000")));
        // Values written by a failed call are not reported.
        assert_eq!((field(3, "code"), field(3, "made")), (Some("1"), Some("")));
        assert!(field(1, "nanoseconds").is_some() && field(0, "nanoseconds").is_none());
        // A call without a subscriber.
        call(5);
    }

    #[test]
    fn null_pointers_are_shown_and_not_read() {
        let nowhere = (std::ptr::null_mut(), -1, std::ptr::null_mut());
        // SAFETY: the function reads no pointer.
        let events = record_events(|| assert_eq!(unsafe { (ask as Ask).traced("ask", nowhere) }, Status::SUCCESS));
        assert_eq!(events[0]["arguments"], "null, -1, null");
        assert_eq!(events[1]["made"], "");
    }
}
