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
    let cached = cache(&system.bytes("/etc/ld.so.cache").unwrap_or_default());
    let cached = cached.into_iter().filter(|(known, _)| known == name).map(|(_, path)| path);
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

/// The names and files in the linker's cache.
fn cache(bytes: &[u8]) -> Vec<(String, PathBuf)> {
    // An older format may precede this one.
    let Some(start) = bytes.windows(MAGIC.len()).position(|window| window == MAGIC) else { return Vec::new() };
    let bytes = &bytes[start..];
    let number = |place: usize| {
        let four = bytes.get(place..place.checked_add(4)?)?.try_into().ok()?;
        usize::try_from(u32::from_ne_bytes(four)).ok()
    };
    let text = |place: usize| {
        let rest = bytes.get(place..)?;
        let end = rest.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&rest[..end]).into_owned())
    };
    let count = number(MAGIC.len()).unwrap_or(0);
    let entry = |index: usize| {
        let place = HEADER + index * ENTRY;
        Some((text(number(place + 4)?)?, PathBuf::from(text(number(place + 8)?)?)))
    };
    (0..count).map_while(entry).collect()
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
        assert_eq!(cache(&made(&entries)), expected);
        assert_eq!(cache(&[b"ld.so-1.7.0 and more".as_slice(), &made(&entries)].concat()), expected);
        assert_eq!(cache(b"other"), []);
        assert_eq!(cache(&made(&entries)[..60]), [], "cut short");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_c_library_of_this_system_is_found() {
        assert!(find(&System::new(None), "libc.so.6").is_some());
    }
}
