//! Checks of `wgpu::Device::create_buffer` and `create_texture` that `create_*_from_hal` skips.
//!
//! wgpu validates views, bindings and copies against the description of the object, and trusts that its own creation
//! functions accepted that description. Their checks run here, before a native object exists.
//! `tests/sharing/differences.rs` compares the results.

use gpu_interop::{Error, Result};

use crate::interop::Graphics;

/// Checks a buffer as `create_buffer` does, and that compute can share it.
///
/// # Errors
/// `InvalidArgument`; `Unsupported` for a usage whose feature the device lacks.
pub(crate) fn buffer(operation: &'static str, graphics: &Graphics, desc: &wgpu::BufferDescriptor<'_>) -> Result<()> {
    use wgpu::BufferUsages as Usage;
    let usage = |error: Error| error.with_context("usage", format_args!("{:?}", desc.usage));
    if desc.usage.intersects(Usage::MAP_READ | Usage::MAP_WRITE) || desc.mapped_at_creation {
        let message = "wgpu cannot map a shared buffer; write it with Queue::write_buffer or a stream, and read it \
                       through a copy to a buffer with MAP_READ";
        return Err(usage(Error::invalid(operation, message)));
    }
    if desc.usage.is_empty() {
        return Err(Error::invalid(operation, "the buffer has no usage; state how wgpu uses it"));
    }
    if Usage::from_bits(desc.usage.bits()).is_none() {
        return Err(usage(Error::invalid(operation, "wgpu has no such usage; combine constants of BufferUsages")));
    }
    let ray_query = wgpu::Features::EXPERIMENTAL_RAY_QUERY;
    if desc.usage.intersects(Usage::BLAS_INPUT | Usage::TLAS_INPUT) && !graphics.device.features().contains(ray_query) {
        let message = "the usage needs the feature EXPERIMENTAL_RAY_QUERY; request it with the wgpu device";
        return Err(usage(Error::unsupported(operation, message)));
    }
    if desc.size == 0 {
        return Err(Error::invalid(operation, "the size must be at least 1 byte"));
    }
    let limit = graphics.device.limits().max_buffer_size;
    if desc.size > limit {
        let message = "the buffer is larger than the wgpu device's limit max_buffer_size; request a greater limit with the \
                       device";
        return Err(Error::invalid(operation, message).with_context("size", desc.size).with_context("limit", limit));
    }
    Ok(())
}

/// Checks a texture as `create_texture` does, and that compute can share it.
///
/// # Errors
/// `InvalidArgument`; `Unsupported` for properties that compute or this wgpu device lacks.
pub(crate) fn texture(
    operation: &'static str,
    graphics: &Graphics,
    desc: &wgpu::TextureDescriptor<'_>,
    never_discarded: bool,
) -> Result<()> {
    texture_is_shareable(operation, desc)?;
    texture_shape(operation, &graphics.device.limits(), desc)?;
    texture_format(operation, graphics, desc)?;
    if desc.usage.contains(wgpu::TextureUsages::RENDER_ATTACHMENT) && !never_discarded {
        let message = "wgpu panics when a shared texture is used after a render pass with StoreOp::Discard; if all passes \
                       store it, promise that with TextureOptions::never_discarded(true) and create_texture_with, or with \
                       ImportOptions::never_discarded(true), or render to a texture of wgpu's own and copy it";
        return Err(Error::invalid(operation, message).with_context("usage", "RENDER_ATTACHMENT"));
    }
    Ok(())
}

/// Rejects textures that no device shares.
fn texture_is_shareable(operation: &'static str, desc: &wgpu::TextureDescriptor<'_>) -> Result<()> {
    if desc.sample_count != 1 {
        let message = "compute APIs have no arrays with several samples; resolve to a shared texture with one";
        return Err(Error::unsupported(operation, message).with_context("samples", desc.sample_count));
    }
    if desc.usage.contains(wgpu::TextureUsages::TRANSIENT_ATTACHMENT) {
        return Err(Error::unsupported(operation, "a transient attachment has no memory to share; drop that usage"));
    }
    Ok(())
}

/// Dimensions, layers and levels.
fn texture_shape(operation: &'static str, limits: &wgpu::Limits, desc: &wgpu::TextureDescriptor<'_>) -> Result<()> {
    use wgpu::TextureDimension::{D1, D2, D3};
    let wgpu::Extent3d { width, height, depth_or_array_layers } = desc.size;
    let side = match desc.dimension {
        D1 => limits.max_texture_dimension_1d,
        D2 => limits.max_texture_dimension_2d,
        D3 => limits.max_texture_dimension_3d,
    };
    let most = match desc.dimension {
        D1 => [side, 1, 1],
        D2 => [side, side, limits.max_texture_array_layers],
        D3 => [side; 3],
    };
    let given = [width, height, depth_or_array_layers];
    let invalid = |message: &str| {
        Err(Error::invalid(operation, message.to_owned())
            .with_context("size", format_args!("{given:?}"))
            .with_context("limit", format_args!("{most:?}")))
    };
    if given.contains(&0) {
        return invalid("the texture has no texels; every side must be at least 1");
    }
    if given.into_iter().zip(most).any(|(given, most)| given > most) {
        return invalid("the texture is larger than the wgpu device's limits; a 1D texture has one row and one layer");
    }
    let levels = desc.size.max_mips(desc.dimension).min(wgpu::hal::MAX_MIP_LEVELS);
    if !(1..=levels).contains(&desc.mip_level_count) {
        return Err(Error::invalid(operation, format!("the number of mip levels must be from 1 to {levels}"))
            .with_context("levels", desc.mip_level_count)
            .with_context("size", format_args!("{given:?}")));
    }
    Ok(())
}

/// Format, usage and formats of views.
fn texture_format(operation: &'static str, graphics: &Graphics, desc: &wgpu::TextureDescriptor<'_>) -> Result<()> {
    let features = graphics.device.features();
    let describe = |error: Error| {
        error
            .with_context("format", format_args!("{:?}", desc.format))
            .with_context("usage", format_args!("{:?}", desc.usage))
    };
    if desc.usage.is_empty() {
        return Err(Error::invalid(operation, "the texture has no usage; state how wgpu uses it"));
    }
    if wgpu::TextureUsages::from_bits(desc.usage.bits()).is_none() {
        return Err(describe(Error::invalid(operation, "wgpu has no such usage; combine constants of TextureUsages")));
    }
    if desc.dimension == wgpu::TextureDimension::D1 && desc.usage.contains(wgpu::TextureUsages::RENDER_ATTACHMENT) {
        return Err(describe(Error::invalid(operation, "wgpu renders to no 1D texture; use a 2D one with one row")));
    }
    let missing = desc.format.required_features() - features;
    if !missing.is_empty() {
        let message = "the wgpu device lacks a feature that the format needs; request it with the device";
        return Err(
            describe(Error::unsupported(operation, message)).with_context("features", format_args!("{missing:?}"))
        );
    }
    let other = |view: &&wgpu::TextureFormat| view.remove_srgb_suffix() != desc.format.remove_srgb_suffix();
    if let Some(view) = desc.view_formats.iter().find(other) {
        let message = "views may differ from the texture in the sRGB encoding only; drop the view format, or create the \
                       texture with it";
        return Err(describe(Error::invalid(operation, message)).with_context("view format", format_args!("{view:?}")));
    }
    if features.contains(wgpu::Features::TEXTURE_ADAPTER_SPECIFIC_FORMAT_FEATURES) {
        return texture_adapter(operation, graphics, desc);
    }
    let allowed = desc.format.guaranteed_format_features(features).allowed_usages;
    if !allowed.contains(desc.usage) {
        let message = "wgpu does not guarantee this usage of the format; drop it, take another format, or request \
                       TEXTURE_ADAPTER_SPECIFIC_FORMAT_FEATURES";
        return Err(describe(Error::unsupported(operation, message))
            .with_context("not guaranteed", format_args!("{:?}", desc.usage - allowed)));
    }
    Ok(())
}

/// The usages that an adapter allows are known to `wgpu::Adapter`, which a device does not return. Instead, wgpu creates
/// a texture of one texel.
fn texture_adapter(operation: &'static str, graphics: &Graphics, desc: &wgpu::TextureDescriptor<'_>) -> Result<()> {
    let size = wgpu::Extent3d { width: 1, height: 1, depth_or_array_layers: 1 };
    let texel = wgpu::TextureDescriptor { size, mip_level_count: 1, ..desc.clone() };
    graphics.checked(operation, || {
        drop(graphics.device.create_texture(&texel));
        Ok(())
    })
}

/// Rejects linear attachments on NVIDIA: together with a depth attachment, they end the driver's channel (Xid 69, driver
/// 580.159), and everything that waits for the queue hangs.
pub(crate) fn linear_attachment(operation: &'static str, device: &wgpu::Device) -> Result<()> {
    const NVIDIA: u32 = 0x10DE;
    if device.adapter_info().vendor != NVIDIA {
        return Ok(());
    }
    let message = "NVIDIA's driver fails when it renders to a linear texture with a depth attachment; render to a texture \
                   of wgpu's own and copy it, or share the texture with optimal tiling";
    Err(Error::unsupported(operation, message).with_context("usage", "RENDER_ATTACHMENT"))
}
