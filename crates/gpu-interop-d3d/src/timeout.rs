//! Timeouts in Windows milliseconds.

use std::time::Duration;

/// `INFINITE`.
const INFINITE: u32 = u32::MAX;

/// Converts a timeout to whole milliseconds, rounded up so that no wait ends early; `None` is infinite. Timeouts of
/// more than 49 days become the longest finite one.
pub(crate) fn milliseconds(timeout: Option<Duration>) -> u32 {
    let Some(timeout) = timeout else { return INFINITE };
    u32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(INFINITE).min(INFINITE - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_are_rounded_up_and_stay_finite() {
        let cases = [
            (Some(Duration::ZERO), 0),
            (Some(Duration::from_nanos(1)), 1),
            (Some(Duration::from_millis(7)), 7),
            (Some(Duration::from_micros(7001)), 8),
            (Some(Duration::from_millis(u32::MAX.into())), u32::MAX - 1),
            (Some(Duration::MAX), u32::MAX - 1),
            (None, u32::MAX),
        ];
        for (timeout, expected) in cases {
            assert_eq!(milliseconds(timeout), expected, "{timeout:?}");
        }
    }
}
