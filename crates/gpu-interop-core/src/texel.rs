//! What a graphics API says of a texel and an array's format does not.

/// The order of a texel's colours, from the first byte, or the lowest bit of a packed texel, on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelOrder {
    /// Red, green, blue, alpha, as far as there are channels.
    Rgba,
    /// Blue, green, red, alpha. An array has no such order: its first channel is blue.
    Bgra,
}

/// How a texel's number stands for a brightness.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColorEncoding {
    /// In proportion to it.
    Linear,
    /// By the sRGB curve. An array has no such formats: its values are encoded, and decoding is up to the texture or
    /// the kernel.
    Srgb,
}
