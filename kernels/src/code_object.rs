//! Embedded AMD code objects.

macro_rules! code_objects {
    ($($target:literal)*) => {
        &[$(($target, include_bytes!(concat!("../prebuilt/", $target, ".hsaco")))),*]
    };
}

/// Embedded code objects, with their targets.
pub static CODE_OBJECTS: &[(&str, &[u8])] = code_objects![
    "gfx906" "gfx908" "gfx90a" "gfx942" "gfx1030" "gfx1100" "gfx1201"
    "gfx9-generic" "gfx10-1-generic" "gfx10-3-generic" "gfx11-generic" "gfx12-generic"
];

/// Returns the code object for an AMD GPU by its architecture's name (`gcnArchName`), such as `gfx90a:sramecc+:xnack-`.
/// The objects run with any features after the colon. Returns `None` for architectures without one.
///
/// The object is an argument for `hipModuleLoadData` or `ModuleImage::Binary`. GPUs without their own object get that
/// of their family, which only newer runtimes load: HIP 6.4 does, 5.7 does not (code object version 6). The others have
/// version 4, which HIP 5.2 to 7.2 load (measured).
#[must_use]
pub fn code_object(gfx_arch: &str) -> Option<&'static [u8]> {
    code_object_among(CODE_OBJECTS, gfx_arch)
}

/// As [`code_object`], from code objects of another source, each with its target: that of the architecture, or else
/// that of its family.
#[must_use]
pub fn code_object_among<'a>(objects: &[(&str, &'a [u8])], gfx_arch: &str) -> Option<&'a [u8]> {
    let arch = gfx_arch.split_once(':').map_or(gfx_arch, |(base, _)| base);
    let find = |target: &str| objects.iter().find(|(name, _)| *name == target).map(|(_, object)| *object);
    find(arch).or_else(|| find(family(arch)?))
}

/// Returns LLVM's generic target of an architecture. gfx908, gfx90a and gfx942 have none.
fn family(arch: &str) -> Option<&'static str> {
    Some(match arch {
        "gfx900" | "gfx902" | "gfx904" | "gfx906" | "gfx909" | "gfx90c" => "gfx9-generic",
        "gfx1010" | "gfx1011" | "gfx1012" | "gfx1013" => "gfx10-1-generic",
        "gfx1030" | "gfx1031" | "gfx1032" | "gfx1033" | "gfx1034" | "gfx1035" | "gfx1036" => "gfx10-3-generic",
        "gfx1100" | "gfx1101" | "gfx1102" | "gfx1103" | "gfx1150" | "gfx1151" | "gfx1152" | "gfx1153" => {
            "gfx11-generic"
        }
        "gfx1200" | "gfx1201" => "gfx12-generic",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(gfx_arch: &str) -> Option<&'static str> {
        let object = code_object(gfx_arch)?;
        CODE_OBJECTS.iter().find(|(_, bytes)| std::ptr::eq(*bytes, object)).map(|(name, _)| *name)
    }

    #[test]
    fn an_architecture_gets_its_own_object_or_its_familys() {
        for (arch, expected) in [
            ("gfx90a:sramecc+:xnack-", Some("gfx90a")),
            ("gfx906", Some("gfx906")),
            ("gfx90c:xnack+", Some("gfx9-generic")),
            ("gfx1012", Some("gfx10-1-generic")),
            ("gfx1032", Some("gfx10-3-generic")),
            ("gfx1151", Some("gfx11-generic")),
            ("gfx1200", Some("gfx12-generic")),
            ("gfx803", None),
            ("gfx90", None),
            ("gfx", None),
            (":xnack+", None),
            ("", None),
        ] {
            assert_eq!(target(arch), expected, "{arch}");
        }
    }
}
