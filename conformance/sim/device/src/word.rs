//! Words that streams wait for and write.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::faults;

/// A value with the word's width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Word {
    /// 32 bits.
    Narrow(u32),
    /// 64 bits.
    Wide(u64),
}

/// Condition that ends a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// The difference between word and value, wrapping around, is not negative: CUDA's condition.
    Reached,
    /// The word is at least the value: HIP's condition.
    AtLeast,
    /// They are equal.
    Equal,
    /// The word and the value have a common bit.
    And,
    /// A bit is 0 in both.
    Nor,
}

impl Condition {
    /// The condition with this number, which both vendors share. `first` is the meaning of 0.
    pub fn of(first: Self, number: u32) -> Option<Self> {
        [first, Self::Equal, Self::And, Self::Nor].get(usize::try_from(number).ok()?).copied()
    }
}

impl Word {
    /// Bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Narrow(_) => 4,
            Self::Wide(_) => 8,
        }
    }

    /// `true` if the address is aligned for the word.
    fn is_aligned(self, address: usize) -> bool {
        address.is_multiple_of(self.size())
    }

    /// The bits of a word of this width at `address`. If it is not aligned, a concurrent write may be seen partially,
    /// as on a device.
    ///
    /// # Safety
    /// The word is valid for reads.
    unsafe fn load(self, address: usize) -> u64 {
        let aligned = self.is_aligned(address);
        // SAFETY: the caller's promise. Other writers access it as a device does.
        unsafe {
            match self {
                Self::Narrow(_) if aligned => AtomicU32::from_ptr(at(address)).load(Ordering::Acquire).into(),
                Self::Wide(_) if aligned => AtomicU64::from_ptr(at(address)).load(Ordering::Acquire),
                Self::Narrow(_) => u32::from_ne_bytes(at::<[u8; 4]>(address).read_volatile()).into(),
                Self::Wide(_) => u64::from_ne_bytes(at::<[u8; 8]>(address).read_volatile()),
            }
        }
    }

    /// Writes the value.
    ///
    /// # Safety
    /// The word at `address` is valid for writes.
    pub unsafe fn store(self, address: usize) {
        let aligned = self.is_aligned(address);
        // SAFETY: as in `load`.
        unsafe {
            match self {
                Self::Narrow(value) if aligned => AtomicU32::from_ptr(at(address)).store(value, Ordering::Release),
                Self::Wide(value) if aligned => AtomicU64::from_ptr(at(address)).store(value, Ordering::Release),
                Self::Narrow(value) => at::<[u8; 4]>(address).write_volatile(value.to_ne_bytes()),
                Self::Wide(value) => at::<[u8; 8]>(address).write_volatile(value.to_ne_bytes()),
            }
        }
    }

    /// Waits until the condition holds or the device is lost. Polls the word with increasing pauses.
    ///
    /// # Safety
    /// The word at `address` is valid for reads until this returns.
    pub unsafe fn wait(self, address: usize, mask: u64, condition: Condition) {
        let mut pause = Duration::from_micros(1);
        // SAFETY: the caller's promise. Losing the device frees no memory.
        while !faults::is_lost() && !self.is_met(unsafe { self.load(address) }, mask, condition) {
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_micros(200));
        }
    }

    fn is_met(self, word: u64, mask: u64, condition: Condition) -> bool {
        let (value, sign, all) = match self {
            Self::Narrow(value) => (u64::from(value), 1 << 31, u64::from(u32::MAX)),
            Self::Wide(value) => (value, 1 << 63, u64::MAX),
        };
        let (mask, word) = (mask & all, word & mask);
        match condition {
            Condition::Reached => word.wrapping_sub(value) & sign == 0,
            Condition::AtLeast => word >= value,
            Condition::Equal => word == value,
            Condition::And => word & value != 0,
            // AMD's kernel applies the mask to the value, too.
            Condition::Nor => (word | value) & mask != mask,
        }
    }
}

fn at<T>(address: usize) -> *mut T {
    std::ptr::with_exposed_provenance_mut(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_hold_when_they_should() {
        use Condition::{And, AtLeast, Equal, Nor, Reached};
        const ALL: u64 = u64::MAX;
        assert!(Word::Narrow(7).is_met(7, ALL, Reached) && !Word::Narrow(7).is_met(6, ALL, Reached));
        assert!(Word::Narrow(u32::MAX).is_met(2, ALL, Reached) && Word::Wide(u64::MAX).is_met(2, ALL, Reached));
        assert!(
            !Word::Narrow(7).is_met(0x8000_0007, ALL, Reached)
                && !Word::Wide(1 << 32).is_met(0xffff_ffff, ALL, Reached)
        );
        assert!(Word::Wide(5).is_met(5, ALL, Equal) && !Word::Wide(5).is_met(4, ALL, Equal));
        assert!(Word::Narrow(2).is_met(6, ALL, And) && !Word::Narrow(2).is_met(4, ALL, And));
        assert!(Word::Narrow(u32::MAX - 1).is_met(0, ALL, Nor) && !Word::Narrow(u32::MAX - 1).is_met(1, ALL, Nor));
        assert!(!Word::Narrow(u32::MAX).is_met(2, ALL, AtLeast) && Word::Narrow(7).is_met(0x8000_0007, ALL, AtLeast));
        assert!(!Word::Narrow(2).is_met(1, 1, Nor) && Word::Narrow(2).is_met(0, 1, Nor));
        assert!(Word::Narrow(5).is_met(0xf5, 0x0f, Equal) && !Word::Narrow(0x10).is_met(0x1f, 0x0f, And));
        let of = |number| Condition::of(AtLeast, number);
        assert_eq!([0, 1, 2, 3, 4].map(of), [Some(AtLeast), Some(Equal), Some(And), Some(Nor), None]);
    }
}
