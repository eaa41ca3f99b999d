//! Numbers for readers.

/// A value with significant digits and a suitable unit.
pub(crate) fn quantity(value: f64, unit: &str) -> String {
    match unit {
        "" => number(value),
        "ns" if value.abs() >= 1e9 => format!("{} s", number(value / 1e9)),
        "ns" if value.abs() >= 1e6 => format!("{} ms", number(value / 1e6)),
        "ns" if value.abs() >= 1e3 => format!("{} µs", number(value / 1e3)),
        _ => format!("{} {unit}", number(value)),
    }
}

/// A value with about three digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_units_that_fit() {
        assert_eq!(quantity(612.4, "ns"), "612 ns");
        assert_eq!(quantity(364_000.0, "ns"), "364 µs");
        assert_eq!(quantity(1_536_000.0, "ns"), "1.536 ms");
        assert_eq!(quantity(2.5e9, "ns"), "2.500 s");
        assert_eq!((quantity(-1_061_066.0, "ns"), quantity(1.02, "")), ("-1.061 ms".into(), "1.020".into()));
        assert_eq!(quantity(3200.5, "GB/s"), "3200 GB/s");
    }
}
