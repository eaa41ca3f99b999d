//! Functions of a driver's C interface, and the faults injected into them: calls that fail, return null or are delayed,
//! and the loss of the device. Also counts the calls.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::fs::OpenOptions;
use std::io::{Seek, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError, RwLock};
use std::time::Duration;

use crate::{lock, report, settings};

/// Fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// No fault.
    None,
    /// The call fails with this code.
    Code(u32),
    /// The call returns success and a null result.
    Null,
}

/// Effect of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// The call returns this.
    Strike(Strike),
    /// The process aborts in the call, as on a failed assertion of a driver.
    Abort,
    /// The call does not return.
    Hang,
}

/// A rule of `GPU_INTEROP_SIM_FAIL`.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    /// `*` matches every function.
    function: String,
    uses: Uses,
    answer: Answer,
}

/// The uses of a function that a rule hits, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Uses {
    first: u64,
    last: u64,
    /// The first of every so many uses from `first` on.
    every: u64,
}

impl Uses {
    fn parse(text: &str) -> Option<Self> {
        if text == "*" {
            return Some(Self { first: 1, last: u64::MAX, every: 1 });
        }
        if let Some(first) = text.strip_suffix('+') {
            return Some(Self { first: first.parse().ok()?, last: u64::MAX, every: 1 });
        }
        if let Some((first, every)) = text.split_once('%') {
            let every = every.parse().ok().filter(|every| *every > 0)?;
            return Some(Self { first: first.parse().ok()?, last: u64::MAX, every });
        }
        let only = text.parse().ok()?;
        Some(Self { first: only, last: only, every: 1 })
    }

    fn contains(&self, number: u64) -> bool {
        (self.first..=self.last).contains(&number) && (number - self.first).is_multiple_of(self.every)
    }

    /// `true` if every use from some point on is hit.
    fn has_no_end(&self) -> bool {
        self.last == u64::MAX && self.every == 1
    }
}

#[derive(Debug)]
struct Calls {
    count: u64,
    gives: bool,
    touches_device: bool,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    calls: HashMap<&'static str, Calls>,
    /// Calls of functions that touch the device.
    all: u64,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    report::at_exit(tell_calls);
    let rules = rules(&settings::text("GPU_INTEROP_SIM_FAIL").unwrap_or_default());
    Mutex::new(State { rules, ..State::default() })
});

static LATENCY: LazyLock<Vec<(String, Duration)>> = LazyLock::new(|| {
    let rule = |text: &str| {
        let (function, microseconds) = text.rsplit_once(':')?;
        Some((function.to_owned(), Duration::from_micros(microseconds.parse().ok()?)))
    };
    settings::text("GPU_INTEROP_SIM_LATENCY").iter().flat_map(|text| text.split(',')).filter_map(rule).collect()
});

fn rules(text: &str) -> Vec<Rule> {
    let rule = |text: &str| {
        let mut parts = text.trim().split(':');
        let (function, nth, answer) = (parts.next()?, parts.next()?, parts.next()?);
        let uses = Uses::parse(nth)?;
        let answer = match answer {
            "null" => Answer::Strike(Strike::Null),
            "abort" => Answer::Abort,
            "hang" => Answer::Hang,
            code => Answer::Strike(Strike::Code(code.parse().ok()?)),
        };
        Some(Rule { function: function.into(), uses, answer })
    };
    text.split(',').filter_map(rule).collect()
}

/// Reports the number of calls for semaphores, because a library may have to avoid them.
extern "C" fn tell_calls() {
    let is_one = |name: &str| name.contains("ExternalSemaphore");
    let count: u64 = lock(&STATE).calls.iter().filter(|(name, _)| is_one(name)).map(|(_, calls)| calls.count).sum();
    report::add(|process| format!("{count} calls for external semaphores in {process}"));
}

/// `true` if a function touches the device. Other functions keep working when the device is lost.
fn touches_device(function: &str) -> bool {
    !function.contains("GetError")
}

/// Counts a call of `function`, which `gives` a result or not, delays it, and returns the fault that the caller must
/// apply. Aborts and hangs happen here.
pub fn strike(function: &'static str, gives: bool) -> Strike {
    for (name, latency) in &*LATENCY {
        if name == function || name == "*" {
            std::thread::sleep(*latency);
        }
    }
    let mut state = lock(&STATE);
    let State { rules, calls, all } = &mut *state;
    let first = || Calls { count: 0, gives: false, touches_device: touches_device(function) };
    let Calls { count, gives: known, touches_device } = calls.entry(function).or_insert_with(first);
    *count += 1;
    *known |= gives;
    *all += u64::from(*touches_device);
    // Counted once, even if several rules name the function.
    let counted = |name: &str, here: u64| rules.iter().any(|rule| rule.function == name).then(|| count_use(name, here));
    let count = counted(function, *count);
    let all = if *touches_device { counted("*", *all) } else { None };
    let hit = rules.iter().find(|rule| match rule.function.as_str() {
        "*" => all.is_some_and(|all| rule.uses.contains(all)),
        name => name == function && count.is_some_and(|count| rule.uses.contains(count)),
    });
    let Some(rule) = hit else { return Strike::None };
    let (answer, lost) = (rule.answer, rule.function == "*" && rule.uses.has_no_end());
    drop(state);
    if lost {
        lose_device();
    }
    match answer {
        Answer::Strike(strike) => strike,
        Answer::Abort => std::process::abort(),
        Answer::Hang => loop {
            std::thread::park();
        },
    }
}

/// Replaces the rules of `GPU_INTEROP_SIM_FAIL` and resets the counts, within a process. NULL means no rules. Returns
/// the number of valid rules, so that the caller notices an invalid one.
///
/// # Safety
/// `text` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_fail(text: *const c_char) -> c_int {
    let text = if text.is_null() {
        String::new()
    } else {
        // SAFETY: the caller's promise.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    };
    restore_device();
    let mut state = lock(&STATE);
    *state = State { rules: rules(&text), ..State::default() };
    c_int::try_from(state.rules.len()).unwrap_or(c_int::MAX)
}

/// The number of calls of `function` since the last [`sim_fail`]; `*` counts all functions that a rule's `*` matches.
///
/// # Safety
/// `function` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_calls(function: *const c_char) -> u64 {
    // SAFETY: the caller's promise.
    let function = unsafe { CStr::from_ptr(function) };
    let state = lock(&STATE);
    match function.to_str() {
        Ok("*") => state.all,
        Ok(function) => state.calls.get(function).map_or(0, |calls| calls.count),
        Err(_) => 0,
    }
}

/// 1 if `function` returns a result, so that `null` is a possible fault; otherwise 0. Known for functions called since
/// the last [`sim_fail`].
///
/// # Safety
/// `function` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_gives(function: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let function = unsafe { CStr::from_ptr(function) };
    let state = lock(&STATE);
    function.to_str().ok().and_then(|function| state.calls.get(function)).is_some_and(|calls| calls.gives).into()
}

static COUNTS: LazyLock<Option<PathBuf>> = LazyLock::new(|| settings::text("GPU_INTEROP_SIM_COUNTS").map(Into::into));

/// The number of this use of `name`: that over all processes if `GPU_INTEROP_SIM_COUNTS` is set, otherwise `here`.
pub(crate) fn count_use(name: &str, here: u64) -> u64 {
    let Some(folder) = &*COUNTS else { return here };
    let name = if name == "*" { "all" } else { name };
    let count = || {
        // An append moves this descriptor to the end of its own byte, however many processes append.
        let mut file = OpenOptions::new().append(true).create(true).open(folder.join(name))?;
        file.write_all(b".")?;
        file.stream_position()
    };
    count().unwrap_or(here)
}

static LOST: AtomicBool = AtomicBool::new(false);
/// Held during accesses to memory.
static MEMORY_ACCESS: RwLock<()> = RwLock::new(());

/// `true` if the device is lost.
pub fn is_lost() -> bool {
    LOST.load(Ordering::SeqCst)
}

/// Loses the device. When this returns, no work touches memory.
pub(crate) fn lose_device() {
    if !LOST.swap(true, Ordering::SeqCst) {
        drop(MEMORY_ACCESS.write().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Restores the device.
pub(crate) fn restore_device() {
    LOST.store(false, Ordering::SeqCst);
}

/// Runs work that touches memory, unless the device is lost.
pub fn unless_lost(work: impl FnOnce()) {
    let touching = MEMORY_ACCESS.read().unwrap_or_else(PoisonError::into_inner);
    if !is_lost() {
        work();
    }
    drop(touching);
}

/// Declares functions of a driver's interface: exported under their names, counted, and subject to the faults of
/// [`settings`]. A body returns `Result<(), u32>`. `gives` names the pointer to the result, which becomes zeros where
/// success with a null result is injected. `failing` runs, with the code, where a failure is injected. Functions that
/// follow `after check;` run `check` before their bodies, and fail with it.
#[macro_export]
macro_rules! entries {
    (after $check:path; $($functions:tt)*) => {
        $crate::entries! { @[$check()?;] $($functions)* }
    };
    (fn $($functions:tt)*) => {
        $crate::entries! { @[] fn $($functions)* }
    };
    (@$before:tt $(
        fn $name:ident($($argument:ident: $type:ty),* $(,)?) $(gives $out:ident)? $(failing $failing:expr;)? $body:block
    )*) => { $(
        #[doc = concat!("Simulates `", stringify!($name), "`.")]
        ///
        /// # Safety
        /// As the vendor's documentation requires: pointers are valid for the call, and memory used by work on a stream
        /// is valid until that work has run.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, unused_unsafe, clippy::too_many_arguments, reason = "the vendor's interface")]
        pub unsafe extern "C" fn $name($($argument: $type),*) -> u32 {
            let gives = !<[&str]>::is_empty(&[$(stringify!($out))?]);
            match $crate::faults::strike(stringify!($name), gives) {
                $crate::faults::Strike::None => {}
                $crate::faults::Strike::Code(code) => {
                    // SAFETY: the caller's promise about its arguments.
                    $( unsafe { ($failing)(code) }; )?
                    return code;
                }
                $crate::faults::Strike::Null => {
                    // SAFETY: the caller's promise about its arguments; every result is a number or a pointer.
                    $( unsafe { $out.write_bytes(0, 1) }; )?
                    return 0;
                }
            }
            // SAFETY: the caller's promise about its arguments.
            let run = || -> Result<(), u32> { unsafe { $crate::unbracket! $before; $body } };
            run().err().unwrap_or(0)
        }
    )* };
}

/// The tokens in brackets.
#[doc(hidden)]
#[macro_export]
macro_rules! unbracket {
    [$($inside:tt)*] => { $($inside)* };
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules are global to the process.
    #[test]
    fn the_named_use_of_the_named_function_fails() {
        // SAFETY: strings.
        let count = |text: &CStr| unsafe { sim_fail(text.as_ptr()) };
        let strike = |function| strike(function, function == "second");
        assert_eq!(count(c"first:2:700, second:*:null,third:1:x,fourth,fifth:x+:1"), 2);
        assert_eq!([(); 3].map(|()| strike("first")), [Strike::None, Strike::Code(700), Strike::None]);
        assert_eq!([(); 2].map(|()| strike("second")), [Strike::Null; 2]);
        assert_eq!(strike("third"), Strike::None);
        // SAFETY: strings.
        unsafe {
            assert_eq!(sim_calls(c"first".as_ptr()), 3);
            assert_eq!((sim_gives(c"first".as_ptr()), sim_gives(c"second".as_ptr())), (0, 1));
        }
        // SAFETY: NULL means no rules.
        assert_eq!(unsafe { sim_fail(std::ptr::null()) }, 0);
        assert_eq!([(); 2].map(|()| strike("first")), [Strike::None; 2]);

        assert_eq!(count(c"first:2+:1"), 1);
        assert_eq!([(); 3].map(|()| strike("first")), [Strike::None, Strike::Code(1), Strike::Code(1)]);
        assert_eq!(count(c"first:2%3:1,second:1%0:1"), 1);
        let hits = [(); 6].map(|()| strike("first") == Strike::Code(1));
        assert_eq!(hits, [false, true, false, false, true, false]);
        assert_eq!(count(c"*:3+:719"), 1);
        let calls = ["first", "cuGetErrorName", "second", "first", "cuGetErrorName", "third"].map(strike);
        let lost = Strike::Code(719);
        assert_eq!(calls, [Strike::None, Strike::None, Strike::None, lost, Strike::None, lost]);
        // SAFETY: a string.
        assert_eq!(unsafe { sim_calls(c"*".as_ptr()) }, 4);
        assert!(is_lost());
        assert_eq!((count(c""), is_lost()), (0, false));
    }
}
