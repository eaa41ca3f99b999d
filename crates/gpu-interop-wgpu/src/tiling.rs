//! Tilings of textures, and places of texels.

/// Tiling of a [`SharedTexture`](crate::SharedTexture)'s texels in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Tiling {
    /// [`Optimal`](Self::Optimal) where the compute device maps arrays, [`Linear`](Self::Linear) elsewhere: on the CPU
    /// and with HIP on Linux.
    #[default]
    Auto,
    /// The driver's own layout, mapped as a mipmapped array: kernels use surfaces and textures.
    Optimal,
    /// Rows in memory, mapped as a buffer with a row pitch. Drivers often support it for 2D textures with one level
    /// only. On NVIDIA it excludes `RENDER_ATTACHMENT`: that driver loses its queue when it renders to a linear texture
    /// with a depth attachment.
    Linear,
}

/// Options of [`Interop::create_texture_with`](crate::Interop::create_texture_with).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TextureOptions {
    /// Tiling of the texels.
    pub tiling: Tiling,
    /// Compute maps the texture as a cube (6 layers) or an array of cubes. wgpu makes cube views of every square texture
    /// with 6 layers or more, with and without this.
    pub cube: bool,
    /// No render pass ends with `StoreOp::Discard` for this texture. `RENDER_ATTACHMENT` needs this promise.
    ///
    /// wgpu zeroes a discarded texture before its next use, but not one made from a native texture, as a shared one is:
    /// it panics in that submission, with Vulkan and Direct3D 12 (wgpu 30, `TextureClearMode::None`). A resolve target
    /// is stored whatever happens to the attachment with several samples. Breaking the promise panics, and is otherwise
    /// safe.
    pub never_discarded: bool,
}

impl TextureOptions {
    /// Sets the tiling.
    #[must_use]
    pub fn tiling(mut self, tiling: Tiling) -> Self {
        self.tiling = tiling;
        self
    }

    /// Sets whether compute maps a cube.
    #[must_use]
    pub fn cube(mut self, cube: bool) -> Self {
        self.cube = cube;
        self
    }

    /// Promises that no render pass discards the texture.
    #[must_use]
    pub fn never_discarded(mut self, never_discarded: bool) -> Self {
        self.never_discarded = never_discarded;
        self
    }
}

/// Where the texels of one layer of one mip level are in a [`TextureMapping::Linear`](crate::TextureMapping::Linear).
/// All values are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct LinearLayout {
    /// Offset of the first texel in the buffer.
    pub offset: u64,
    /// Distance between the starts of consecutive rows.
    pub row_pitch: u64,
    /// Distance between the starts of consecutive slices of a 3D texture.
    pub slice_pitch: u64,
}
