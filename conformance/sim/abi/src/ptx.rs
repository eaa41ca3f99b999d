//! Kernels in PTX.

use std::ffi::CString;

/// The names of the kernels in PTX.
pub fn kernels(text: &str) -> Vec<CString> {
    let mut words = text.split_whitespace();
    let mut names = Vec::new();
    while words.any(|word| word == ".entry") {
        let name = words.next().and_then(|word| word.split('(').next());
        names.extend(name.and_then(|name| CString::new(name).ok()));
    }
    names
}

#[cfg(test)]
mod tests {
    use gpu_interop_kernels::KERNELS;

    use super::*;

    #[test]
    fn kernels_are_found_by_their_entries() {
        let project: Vec<_> = KERNELS.iter().map(|kernel| kernel.name.to_owned()).collect();
        assert_eq!(kernels(&gpu_interop_kernels::ptx().to_string_lossy()), project);
        let text = ".version 6.0 // .entryless\n.visible .entry\n  one (.param .u64 a) { } .weak .entry two()";
        assert_eq!(kernels(text), [c"one".to_owned(), c"two".to_owned()]);
        assert_eq!(kernels(".entry"), [].map(|()| CString::default()));
    }
}
