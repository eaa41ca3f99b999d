//! Direct3D 12 beneath wgpu.
