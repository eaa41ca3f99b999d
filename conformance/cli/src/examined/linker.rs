//! The dynamic linker's search for a library, without loading it.

use std::path::{Path, PathBuf};

use super::system::System;

/// The default folders, by distribution.
const FOLDERS: [&str; 8] = [
    "/lib/x86_64-linux-gnu",
    "/usr/lib/x86_64-linux-gnu",
    "/lib/aarch64-linux-gnu",
    "/usr/lib/aarch64-linux-gnu",
    "/lib64",
    "/usr/lib64",
    "/lib",
    "/usr/lib",
];

/// The files with this name, in the order of the search: `LD_LIBRARY_PATH`, the linker's cache, the default folders.
/// Links that lead to one file count once.
pub(crate) fn all(system: &System, name: &str) -> Vec<PathBuf> {
    let folders = system.list("LD_LIBRARY_PATH");
    let cached = system.bytes("/etc/ld.so.cache").unwrap_or_default();
    let cached = cache(&cached).filter(|(known, _)| *known == name.as_bytes());
    let cached = cached.map(|(_, path)| PathBuf::from(String::from_utf8_lossy(path).into_owned()));
    let candidates = folders.iter().map(|folder| folder.join(name)).chain(cached);
    let candidates = candidates.chain(FOLDERS.iter().map(|folder| Path::new(folder).join(name)));
    let mut found: Vec<(PathBuf, PathBuf)> = Vec::new();
    for path in candidates {
        let Some(file) = system.canonical(&path) else { continue };
        if !found.iter().any(|(_, known)| *known == file) {
            found.push((path, file));
        }
    }
    found.into_iter().map(|(path, _)| path).collect()
}

/// The first file with this name.
pub(crate) fn find(system: &System, name: &str) -> Option<PathBuf> {
    all(system, name).into_iter().next()
}

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
const HEADER: usize = 48;
const ENTRY: usize = 24;
/// The greatest length of a path, bytes: `PATH_MAX`.
const LONGEST: usize = 4096;

/// The names and files in the linker's cache. Entries of a damaged one may share long texts: none is copied.
fn cache(bytes: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    // An older format may precede this one.
    let start = bytes.windows(MAGIC.len()).position(|window| window == MAGIC).unwrap_or(bytes.len());
    let bytes = &bytes[start..];
    let number = move |place: usize| {
        let four = bytes.get(place..place.checked_add(4)?)?.try_into().ok()?;
        usize::try_from(u32::from_ne_bytes(four)).ok()
    };
    let text = move |place: usize| {
        let rest = bytes.get(place..place.saturating_add(LONGEST).min(bytes.len()))?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(&rest[..end])
    };
    let count = number(MAGIC.len()).unwrap_or(0);
    let entry = move |index: usize| {
        let place = HEADER + index * ENTRY;
        Some((text(number(place + 4)?)?, text(number(place + 8)?)?))
    };
    (0..count).map_while(entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with these names and files.
    fn made(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let count = u32::try_from(entries.len()).expect("few");
        bytes.extend(count.to_ne_bytes());
        bytes.resize(HEADER, 0);
        let mut next = u32::try_from(HEADER + entries.len() * ENTRY).expect("small");
        let mut place = |text: &str| {
            let here = next;
            next += u32::try_from(text.len() + 1).expect("short");
            here.to_ne_bytes()
        };
        for (name, file) in entries {
            bytes.extend(3_u32.to_ne_bytes());
            bytes.extend(place(name));
            bytes.extend(place(file));
            bytes.extend([0; 12]);
        }
        for text in entries.iter().flat_map(|(name, file)| [name, file]) {
            bytes.extend(text.as_bytes());
            bytes.push(0);
        }
        bytes
    }

    #[test]
    fn the_cache_is_read() {
        let entries = [("libcuda.so.1", "/usr/lib/libcuda.so.1"), ("libz.so.1", "/lib/libz.so.1")];
        let expected: Vec<(String, PathBuf)> =
            entries.iter().map(|(name, file)| ((*name).into(), PathBuf::from(file))).collect();
        let cached = |bytes: &[u8]| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            cache(bytes).map(|(name, file)| (text(name), PathBuf::from(text(file)))).collect::<Vec<_>>()
        };
        assert_eq!(cached(&made(&entries)), expected);
        assert_eq!(cached(&[b"ld.so-1.7.0 and more".as_slice(), &made(&entries)].concat()), expected);
        assert_eq!(cached(b"other"), []);
        assert_eq!(cached(&made(&entries)[..60]), [], "cut short");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_c_library_of_this_system_is_found() {
        assert!(find(&System::new(None), "libc.so.6").is_some());
    }
}
