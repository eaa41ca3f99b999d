//! How kernels sample an array.

use serde::{Deserialize, Serialize};

/// What lies between texels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FilterMode {
    /// The nearest texel (`CU_TR_FILTER_MODE_POINT`).
    #[default]
    Nearest,
    /// A linear mix of the neighbours; for textures read as floats.
    Linear,
}

/// What lies outside of the array.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum AddressMode {
    /// The array again; for normalized coordinates.
    Wrap,
    /// The texel at the edge.
    #[default]
    Clamp,
    /// The array mirrored; for normalized coordinates.
    Mirror,
    /// Zeros.
    Border,
}

/// What a texture fetch returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ReadMode {
    /// The channels as they are stored: integers stay integers (`CU_TRSF_READ_AS_INTEGER`).
    #[default]
    Element,
    /// Integer channels of 8 and 16 bits as floats from 0 to 1, or -1 to 1 if they are signed.
    NormalizedFloat,
    /// As [`ReadMode::NormalizedFloat`], after undoing the sRGB encoding (`CU_TRSF_SRGB`); for 8-bit unsigned
    /// channels.
    Srgb,
}

/// How kernels sample an array: what `cuTexObjectCreate` and `hipTexObjectCreate` are told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct TextureDesc {
    /// Between texels of a level.
    pub filter: FilterMode,
    /// Between levels.
    pub mip_filter: FilterMode,
    /// Outside, in each dimension.
    pub address: AddressMode,
    /// What a fetch returns.
    pub read: ReadMode,
    /// Whether coordinates go from 0 to 1 instead of from 0 to the number of texels. Drivers demand it for textures
    /// of all levels.
    pub normalized_coordinates: bool,
}

impl TextureDesc {
    /// The nearest texel as it is stored, clamped at the edges, by texel numbers.
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

    /// Sets what lies outside.
    #[must_use]
    pub fn with_address(mut self, address: AddressMode) -> Self {
        self.address = address;
        self
    }

    /// Sets what a fetch returns.
    #[must_use]
    pub fn with_read(mut self, read: ReadMode) -> Self {
        self.read = read;
        self
    }

    /// Sets whether coordinates go from 0 to 1.
    #[must_use]
    pub fn with_normalized_coordinates(mut self, normalized: bool) -> Self {
        self.normalized_coordinates = normalized;
        self
    }
}
