//! Versions of drivers, and ranges of them.

use std::cmp::Ordering;

use serde::Deserialize;

/// Numbers between points, compared one by one: 580.95 comes before 580.159.
#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
pub struct Version(Vec<u64>);

impl TryFrom<String> for Version {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
            .ok_or_else(|| format!("`{text}` is not a version: numbers separated by points, as 580.95.05"))
    }
}

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let number = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit()).then(|| part.parse().ok()).flatten();
        text.split('.').map(number).collect::<Option<_>>().map(Self)
    }

    /// The version in a backend's or an exporter's description of its driver: the first number with points that is not
    /// an API's. `CUDA 13.0, driver 580.159.04` and `NVIDIA 580.159.04, Vulkan 1.4` are 580.159.04; `HIP 6.4` is 6.4,
    /// because that is the version of AMD's runtime; `CUDA 13.0` is none.
    #[must_use]
    pub fn of_driver(description: &str) -> Option<Self> {
        Self::parse(Self::text_in(description)?)
    }

    /// The text of the version that [`Version::of_driver`] finds.
    #[must_use]
    pub fn text_in(description: &str) -> Option<&str> {
        let mut before = "";
        description.split([' ', ',', '(', ')']).filter(|word| !word.is_empty()).find(|word| {
            let is_of_api = matches!(std::mem::replace(&mut before, word), "CUDA" | "Vulkan");
            word.contains('.') && !is_of_api && Self::parse(word).is_some()
        })
    }
}

// Missing numbers are 0: 580 and 580.0 are equal.
impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let longest = self.0.len().max(other.0.len());
        let at = |version: &Self, place: usize| version.0.get(place).copied().unwrap_or(0);
        (0..longest)
            .map(|place| at(self, place).cmp(&at(other, place)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

/// From a version on, before another, or both.
#[derive(Debug, Deserialize)]
#[serde(try_from = "Ends")]
pub(crate) struct Range(Ends);

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Ends {
    from: Option<Version>,
    before: Option<Version>,
}

impl TryFrom<Ends> for Range {
    type Error = &'static str;

    fn try_from(ends: Ends) -> Result<Self, Self::Error> {
        match (&ends.from, &ends.before) {
            (None, None) => Err("a range of drivers has `from`, `before`, or both"),
            (Some(from), Some(before)) if from >= before => Err("no driver is in a range that ends where it begins"),
            _ => Ok(Self(ends)),
        }
    }
}

impl Range {
    /// `true` if a driver's version is known to be in the range.
    pub(crate) fn contains(&self, version: Option<&Version>) -> bool {
        let Some(version) = version else { return false };
        self.0.from.as_ref().is_none_or(|from| version >= from)
            && self.0.before.as_ref().is_none_or(|before| version < before)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(text: &str) -> Version {
        Version::parse(text).expect("a version")
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        for (less, more) in [("580.95.05", "580.159.04"), ("9.9", "10.0"), ("6.4", "6.4.1"), ("580", "580.0.1")] {
            assert!(version(less) < version(more), "{less} {more}");
            assert!(version(more) > version(less) && version(more) != version(less), "{less} {more}");
        }
        assert_eq!(version("580"), version("580.0.0"));
        assert_eq!(version("580.04"), version("580.4"));
        for text in ["", "580.", ".1", "580.x", "-1", "+1", "5 80", "99999999999999999999"] {
            assert_eq!(Version::parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_drivers_version_is_found_in_what_it_says() {
        for (description, expected) in [
            ("CUDA 13.0, driver 580.159.04", Some("580.159.04")),
            ("CUDA 13.0", None),
            ("HIP 6.4", Some("6.4")),
            ("NVIDIA 580.159.04, Vulkan 1.4, validation layer not installed", Some("580.159.04")),
            ("llvmpipe Mesa 22.3.6 (LLVM 15.0.6), Vulkan 1.3", Some("22.3.6")),
            ("exportable memory of cuda: CUDA 13.0, driver 580.159.04", Some("580.159.04")),
            ("exportable memory of cuda: CUDA 13.0", None),
            ("reference implementation on CPU memory 0.1.0", Some("0.1.0")),
            ("SwiftShader driver , Vulkan 1.3", None),
            ("", None),
        ] {
            assert_eq!(Version::of_driver(description), expected.map(version), "{description}");
        }
    }

    fn range(text: &str) -> Result<Range, toml::de::Error> {
        #[derive(Deserialize)]
        struct Entry {
            driver: Range,
        }
        toml::from_str::<Entry>(&format!("driver = {text}")).map(|entry| entry.driver)
    }

    #[test]
    fn a_range_has_its_first_driver_and_not_its_last() {
        let both = range("{ from = '580.65', before = '585' }").expect("valid");
        let within = |text: &str| both.contains(Some(&version(text)));
        assert!(within("580.65") && within("580.65.06") && within("584.99"));
        assert!(!within("580.64.99") && !within("585") && !within("585.0.0") && !within("590.1"));
        assert!(!both.contains(None), "of a driver that does not say, nothing is known");
        assert!(range("{ from = '580' }").expect("valid").contains(Some(&version("900"))));
        assert!(range("{ before = '6.4' }").expect("valid").contains(Some(&version("6.3.9"))));
    }

    #[test]
    fn ranges_that_hold_nothing_are_errors() {
        for text in
            ["{}", "{ from = '585', before = '580' }", "{ from = '5', before = '5.0' }", "{ upto = '5' }", "'580*'"]
        {
            range(text).expect_err(text);
        }
        let error = range("{ from = '580.x' }").expect_err("no number").to_string();
        assert!(error.contains("`580.x` is not a version"), "{error}");
    }
}
