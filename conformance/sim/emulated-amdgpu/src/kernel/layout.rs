//! Sizes of kernels' arguments.

/// Sizes of the arguments that compilers append to a kernel's own: none, or the hidden ones of code object versions 4
/// and 5.
const HIDDEN: [u32; 3] = [0, 56, 256];

/// `true` if a kernel whose descriptor states `size` bytes has own arguments of one of these sizes.
pub(super) fn has_explicit(size: u32, explicit: &[u32]) -> bool {
    let whole = |own: u32| own.next_multiple_of(8);
    explicit.iter().any(|own| size == *own || HIDDEN.iter().any(|hidden| size == whole(*own) + hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes in the descriptors of the runtimes 5.2.3, 5.7.1, 6.4.3 and 7.2.4.
    #[test]
    fn the_runtimes_sizes_are_recognised() {
        for (size, explicit) in [(120, 64), (320, 64), (296, 40), (40, 40), (136, 80), (336, 80), (44, 44)] {
            assert!(has_explicit(size, &[12, explicit]), "{size}");
        }
        for (size, explicit) in [(120, 40), (41, 40), (296, 64), (64, 40)] {
            assert!(!has_explicit(size, &[explicit]), "{size}");
        }
    }
}
