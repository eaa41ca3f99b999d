//! Faults on demand: calls that fail, answer null or take their time. Also counts the calls.

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use crate::{lock, settings};

/// What befalls a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strike {
    /// Nothing.
    None,
    /// It fails with this code.
    Code(u32),
    /// It answers success and a null result.
    Null,
}

/// A rule of `SIM_FAIL`.
#[derive(Debug, PartialEq, Eq)]
struct Rule {
    function: String,
    /// Counted from 1; `None` is every use.
    nth: Option<u64>,
    strike: Strike,
}

#[derive(Debug, Default)]
struct State {
    rules: Vec<Rule>,
    calls: HashMap<&'static str, u64>,
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    let rules = rules(&settings::text("SIM_FAIL").unwrap_or_default());
    Mutex::new(State { rules, ..State::default() })
});

static LATENCY: LazyLock<Vec<(String, Duration)>> = LazyLock::new(|| {
    let rule = |text: &str| {
        let (function, microseconds) = text.rsplit_once(':')?;
        Some((function.to_owned(), Duration::from_micros(microseconds.parse().ok()?)))
    };
    settings::text("SIM_LATENCY").iter().flat_map(|text| text.split(',')).filter_map(rule).collect()
});

fn rules(text: &str) -> Vec<Rule> {
    let rule = |text: &str| {
        let mut parts = text.trim().split(':');
        let (function, nth, answer) = (parts.next()?, parts.next()?, parts.next()?);
        let nth = if nth == "*" { None } else { Some(nth.parse().ok()?) };
        let strike = if answer == "null" { Strike::Null } else { Strike::Code(answer.parse().ok()?) };
        Some(Rule { function: function.into(), nth, strike })
    };
    text.split(',').filter_map(rule).collect()
}

/// Counts a call of `function`, lets it take its time, and says what befalls it.
#[must_use]
pub fn strike(function: &'static str) -> Strike {
    for (name, latency) in &*LATENCY {
        if name == function || name == "*" {
            std::thread::sleep(*latency);
        }
    }
    let mut state = lock(&STATE);
    let State { rules, calls } = &mut *state;
    let nth = calls.entry(function).or_default();
    *nth += 1;
    let hit = rules.iter().find(|rule| rule.function == function && rule.nth.is_none_or(|wanted| wanted == *nth));
    hit.map_or(Strike::None, |rule| rule.strike)
}

/// Replaces the rules of `SIM_FAIL` by others and begins to count anew, within a process. NULL is no rules. Answers how
/// many rules there are now, so that a rule that was not understood is noticed.
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
    let mut state = lock(&STATE);
    *state = State { rules: rules(&text), ..State::default() };
    c_int::try_from(state.rules.len()).unwrap_or(c_int::MAX)
}

/// How often `function` was called since the last [`sim_fail`].
///
/// # Safety
/// `function` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sim_calls(function: *const c_char) -> u64 {
    // SAFETY: the caller's promise.
    let function = unsafe { CStr::from_ptr(function) };
    let state = lock(&STATE);
    function.to_str().ok().and_then(|function| state.calls.get(function)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_use_of_the_named_function_fails() {
        // SAFETY: strings.
        let count = |text: &CStr| unsafe { sim_fail(text.as_ptr()) };
        assert_eq!(count(c"first:2:700, second:*:null,third:1:x,fourth"), 2);
        assert_eq!([(); 3].map(|()| strike("first")), [Strike::None, Strike::Code(700), Strike::None]);
        assert_eq!([(); 2].map(|()| strike("second")), [Strike::Null; 2]);
        assert_eq!(strike("third"), Strike::None);
        // SAFETY: a string.
        assert_eq!(unsafe { sim_calls(c"first".as_ptr()) }, 3);
        // SAFETY: NULL is no rules.
        assert_eq!(unsafe { sim_fail(std::ptr::null()) }, 0);
        assert_eq!([(); 2].map(|()| strike("first")), [Strike::None; 2]);
    }
}
