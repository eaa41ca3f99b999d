//! Random numbers of tests.

/// A generator of fixed numbers: Marsaglia's xorshift64. The seed is not 0.
#[derive(Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    pub fn word(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u32) -> u32 {
        u32::try_from(self.word() % u64::from(end)).expect("below 2^32")
    }

    /// One of the values.
    pub fn of<T: Copy>(&mut self, values: &[T]) -> T {
        values[self.below(u32::try_from(values.len()).expect("few")) as usize]
    }
}
