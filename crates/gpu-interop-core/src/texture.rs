//! Texture descriptions: sampling of arrays by kernels.

/// Filtering between texels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum FilterMode {
    /// Nearest texel (`CU_TR_FILTER_MODE_POINT`).
    #[default]
    Nearest,
    /// Linear interpolation; for textures read as floats.
    Linear,
}

/// Addressing outside of the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum AddressMode {
    /// Repeats the array; for normalized coordinates.
    Wrap,
    /// Repeats the texel at the edge.
    #[default]
    Clamp,
    /// Mirrors the array; for normalized coordinates.
    Mirror,
    /// Returns zeros.
    Border,
}

/// Values returned by a texture fetch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum ReadMode {
    /// Channels as stored; integers are not converted (`CU_TRSF_READ_AS_INTEGER`).
    #[default]
    Element,
    /// Integer channels of 8 and 16 bits as floats from 0 to 1, or from -1 to 1 if signed.
    NormalizedFloat,
    /// As [`ReadMode::NormalizedFloat`], with sRGB decoding (`CU_TRSF_SRGB`); for 8-bit unsigned channels.
    Srgb,
}

/// Texture parameters of `cuTexObjectCreate` and `hipTexObjectCreate`.
#[doc(alias("CUDA_TEXTURE_DESC", "cudaTextureDesc", "hipTextureDesc"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TextureDesc {
    /// Filter between texels of a level.
    pub filter: FilterMode,
    /// Filter between levels.
    pub mip_filter: FilterMode,
    /// Addressing in each dimension.
    pub address: AddressMode,
    /// Conversion of the fetched values.
    pub read: ReadMode,
    /// `true` if coordinates range from 0 to 1 instead of from 0 to the number of texels. Required for textures of
    /// several levels.
    pub normalized_coordinates: bool,
}

impl TextureDesc {
    /// Nearest texel as stored, clamped at the edges, with unnormalized coordinates.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets both filters.
    #[must_use]
    pub fn with_filter(mut self, filter: FilterMode) -> Self {
        (self.filter, self.mip_filter) = (filter, filter);
        self
    }
}

setters! {
    TextureDesc {
        /// Sets the addressing in all dimensions.
        with_address => address: AddressMode;
        /// Sets the conversion of fetched values.
        with_read => read: ReadMode;
        /// Sets whether coordinates range from 0 to 1.
        with_normalized_coordinates => normalized_coordinates: bool;
    }
}
