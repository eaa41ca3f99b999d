//! Reasons of outcomes, without the parts that differ between equal runs.

use crate::report::HISTORY;

/// Words before a number that the system assigns anew in each run.
const ASSIGNED: [&str; 9] = ["pid", "process", "thread", "tid", "fd", "descriptor", "handle", "port", "inode"];
/// Units of durations.
const UNITS: [&str; 7] = ["ns", "µs", "us", "ms", "s", "seconds", "milliseconds"];

/// The reason without the scenarios that ran before in its process: these depend on the scheduling of the run.
pub(super) fn without_history(reason: &str) -> &str {
    match reason.rfind(HISTORY) {
        Some(place) => reason[..place].trim_end(),
        None => reason,
    }
}

/// The reason without the name and the identity of the device that an error of the library ends with: the difference of
/// the machines states these.
fn without_device(reason: &str) -> String {
    const DEVICE: &str = "device: ";
    let mut text = String::with_capacity(reason.len());
    let mut rest = reason;
    while let Some(place) = rest.find(DEVICE) {
        let (before, device) = rest.split_at(place + DEVICE.len());
        text.push_str(before);
        // A long reason may end within it.
        let end = [";", "]", " [...]"].into_iter().filter_map(|end| device.find(end)).min().unwrap_or(device.len());
        text.push('#');
        rest = &device[end..];
    }
    text + rest
}

/// Replaces addresses, durations, temporary paths, numbers that the system assigns, and the device's identity.
pub(crate) fn steady(reason: &str) -> String {
    masked(&without_device(without_history(reason)), false)
}

/// As [`steady`], and every other number is replaced, too.
pub(super) fn without_numbers(reason: &str) -> String {
    masked(&without_device(without_history(reason)), true)
}

fn masked(reason: &str, all_numbers: bool) -> String {
    let mut text = String::with_capacity(reason.len());
    let (mut rest, mut word_before) = (reason, String::new());
    while let Some(first) = rest.chars().next() {
        let length = token_length(rest);
        let (token, after) = rest.split_at(length);
        rest = after;
        if let Some(digits) = token.strip_prefix("0x").filter(|digits| !digits.is_empty()) {
            // Small values are codes, not addresses.
            let is_address = digits.len() > 4;
            text.push_str(if is_address || all_numbers { "0x#" } else { token });
        } else if first.is_ascii_digit() {
            let is_duration = UNITS.iter().any(|unit| starts_with_word(rest.trim_start_matches(' '), unit));
            let assigned = ASSIGNED.contains(&word_before.as_str());
            text.push_str(if is_duration || assigned || all_numbers { "#" } else { token });
        } else if token.starts_with("/tmp/") {
            text.push_str("/tmp/#");
        } else {
            text.push_str(token);
        }
        if first.is_alphabetic() {
            word_before = token.to_lowercase();
        } else if first.is_ascii_digit() {
            word_before.clear();
        }
    }
    text
}

/// The length of the next token in bytes: a hexadecimal number, a decimal number, a word, a temporary path, or one
/// character.
fn token_length(rest: &str) -> usize {
    let run = |text: &str, wanted: fn(char) -> bool| text.find(|c: char| !wanted(c)).unwrap_or(text.len());
    if let Some(digits) = rest.strip_prefix("0x") {
        let length = run(digits, |c| c.is_ascii_hexdigit());
        if length > 0 {
            return 2 + length;
        }
    }
    if rest.starts_with("/tmp/") {
        return run(rest, |c| !c.is_whitespace() && !matches!(c, ':' | ',' | ')' | '`' | '\'' | '"'));
    }
    match rest.chars().next() {
        Some(first) if first.is_ascii_digit() => {
            let length = run(rest, |c| c.is_ascii_digit());
            let fraction = rest[length..].strip_prefix('.').map_or(0, |after| run(after, |c| c.is_ascii_digit()));
            if fraction > 0 { length + 1 + fraction } else { length }
        }
        Some(first) if first.is_alphabetic() => run(rest, char::is_alphabetic),
        Some(first) => first.len_utf8(),
        None => 0,
    }
}

fn starts_with_word(text: &str, word: &str) -> bool {
    text.strip_prefix(word).is_some_and(|after| !after.starts_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_between_equal_runs_is_replaced() {
        for (reason, expected) in [
            ("pid 1234 ended after 3.2ms at 0x7f0012345678", "pid # ended after #ms at 0x#"),
            ("did not end within 60s and was killed", "did not end within #s and was killed"),
            ("waited 12 ms: code 719", "waited # ms: code 719"),
            ("/tmp/.tmpAb1/x.json: missing", "/tmp/#: missing"),
            ("flags 0x3, fd 7, size 4096", "flags 0x3, fd #, size 4096"),
            ("word 17: expected 3, found 5", "word 17: expected 3, found 5"),
            ("driver 580.159.04", "driver 580.159.04"),
            ("5 scenarios", "5 scenarios"),
            (
                "no [device: A 1, uuid 1a-2b, pci 0:1.0; size: 8]; no [device: B]",
                "no [device: #; size: 8]; no [device: #]",
            ),
            ("no [code: 2; device: A 1, uuid 1a [...]; no [...]", "no [code: 2; device: # [...]; no [...]"),
        ] {
            assert_eq!(steady(reason), expected);
        }
        assert_eq!(without_numbers("word 17 of 0x10: 3.5 apart"), "word # of 0x#: # apart");
    }

    #[test]
    fn the_history_of_a_process_is_no_part_of_the_reason() {
        let reason = format!("broken {HISTORY}map.a, map.b before; --isolate-each runs each in a separate process]");
        assert_eq!(steady(&reason), "broken");
        assert_eq!(without_history("broken"), "broken");
    }
}
