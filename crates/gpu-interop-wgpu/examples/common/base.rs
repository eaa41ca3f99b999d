//! What all parts of the examples use.

use std::error::Error;
use std::time::Duration;

use gpu_interop_wgpu::wgpu;

pub(crate) type Result<T, E = Box<dyn Error>> = std::result::Result<T, E>;

/// Waits for a submission, or for all.
pub(crate) fn wait(device: &wgpu::Device, submission_index: Option<wgpu::SubmissionIndex>) -> Result<()> {
    device.poll(wgpu::PollType::Wait { submission_index, timeout: Some(Duration::from_secs(60)) })?;
    Ok(())
}

/// A square 2D texture with one level.
pub(crate) fn square(
    size: u32,
    format: wgpu::TextureFormat,
    usage: wgpu::TextureUsages,
) -> wgpu::TextureDescriptor<'static> {
    wgpu::TextureDescriptor {
        label: None,
        size: wgpu::Extent3d { width: size, height: size, depth_or_array_layers: 1 },
        mip_level_count: 1,
        sample_count: 1,
        dimension: wgpu::TextureDimension::D2,
        format,
        usage,
        view_formats: &[],
    }
}
