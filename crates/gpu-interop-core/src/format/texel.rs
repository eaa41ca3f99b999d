//! Properties of graphics texel formats that array formats do not express.

/// Order of the colour channels, from the first byte or, in a packed texel, the lowest bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChannelOrder {
    /// Red, green, blue, alpha; fewer if the format has fewer channels.
    Rgba,
    /// Blue, green, red, alpha. Arrays do not express this order: their first channel is blue.
    Bgra,
}

/// Transfer function of the colour channels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ColorEncoding {
    /// Linear.
    Linear,
    /// sRGB. Arrays have no such formats: their values are encoded, and the texture or the kernel must decode them.
    Srgb,
}
