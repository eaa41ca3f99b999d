//! Names of Rust inside messages, for interfaces of other languages.

/// Replaces names inside `message`, in the order of `names`, where they are whole words: `Stream::wait` does not occur in
/// `Stream::wait_timeline`. An end of a name that is no letter, digit or `_` has no such condition: `Stream::` is a prefix.
#[doc(hidden)]
#[must_use]
pub fn with_names(message: &str, names: &[(&str, &str)]) -> String {
    names.iter().fold(message.to_owned(), |text, (name, other)| match text.contains(name) {
        true => with_name(&text, name, other),
        false => text,
    })
}

fn with_name(text: &str, name: &str, other: &str) -> String {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (mut result, mut rest) = (String::with_capacity(text.len()), text);
    for (at, _) in text.match_indices(name) {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let starts = !(is_word(name.chars().next()) && is_word(before.chars().next_back()));
        if starts && !(is_word(name.chars().next_back()) && is_word(after.chars().next())) {
            result.push_str(&before[text.len() - rest.len()..]);
            result.push_str(other);
            rest = after;
        }
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_replaced_as_whole_words() {
        let names = [("Stream::wait", "wait"), ("`Timeline`", "a timeline"), ("Device::", "device_")];
        for (message, expected) in [
            ("", ""),
            ("Stream::wait: failed", "wait: failed"),
            ("call Stream::wait, then Stream::wait", "call wait, then wait"),
            ("Stream::wait_timeline: Stream::wait", "Stream::wait_timeline: wait"),
            ("ExternalStream::wait", "ExternalStream::wait"),
            ("of `Timeline`s, \u{e9}", "of a timelines, \u{e9}"),
            ("Device::open, BackendDevice::open", "device_open, BackendDevice::open"),
        ] {
            assert_eq!(with_names(message, &names), expected);
        }
    }
}
