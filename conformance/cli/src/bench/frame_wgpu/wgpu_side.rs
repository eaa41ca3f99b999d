//! wgpu's device, and its commands on a frame.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use gpu_interop::vulkan::HeadlessContext;
use gpu_interop::{Device, IdentityMatch};
use gpu_interop_conformance::{Pattern, Stop, Verdict};
use gpu_interop_wgpu::{Interop, identity, request_device, wgpu};
use wgpu::{BufferUsages, CommandBuffer, CommandEncoder, SubmissionIndex, Texture, TextureUsages};

use super::numbers::{IN_FLIGHT, PART, PARTS, PICTURES, drawn, length, place, slot};
use super::way::Composer;
use crate::bench::machine::{PATIENCE, too_much};

/// A device of wgpu with the pictures that it draws, and what it composes.
pub(super) struct WgpuSide {
    pub(super) interop: Interop,
    pub(super) size: [u32; 2],
    pictures: Vec<wgpu::Buffer>,
    composed: wgpu::Buffer,
    parts: wgpu::Buffer,
    /// The compositions of the frames in flight.
    submitted: RefCell<[Option<SubmissionIndex>; IN_FLIGHT as usize]>,
}

impl WgpuSide {
    /// Opens the device of `context` in wgpu, without validation.
    pub(super) fn new(context: &HeadlessContext, compute: &Device, size: [u32; 2]) -> Verdict<Self> {
        let interop = open(context, compute)?;
        let bytes = u64::from(size[0]) * u64::from(size[1]) * 4;
        let buffer = |size, usage| buffer(&interop, size, usage);
        let pictures = (0..PICTURES).map(|seed| {
            let picture = buffer(bytes, BufferUsages::COPY_SRC | BufferUsages::COPY_DST);
            let texels = Pattern::new(seed).bytes(0, length(bytes));
            interop.queue().write_buffer(&picture, 0, &texels);
            picture
        });
        let pictures = pictures.collect();
        let composed = buffer(bytes, BufferUsages::COPY_SRC | BufferUsages::COPY_DST);
        let parts = buffer(PARTS, BufferUsages::COPY_DST | BufferUsages::MAP_READ);
        Ok(Self { interop, size, pictures, composed, parts, submitted: RefCell::default() })
    }

    /// Bytes of a frame.
    pub(super) fn bytes(&self) -> u64 {
        self.composed.size()
    }

    pub(super) fn texture_desc(&self) -> wgpu::TextureDescriptor<'static> {
        wgpu::TextureDescriptor {
            label: Some("frame"),
            size: self.extent(),
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: wgpu::TextureFormat::Rgba8Unorm,
            usage: TextureUsages::COPY_SRC | TextureUsages::COPY_DST | TextureUsages::TEXTURE_BINDING,
            view_formats: &[],
        }
    }

    pub(super) fn encode(&self, record: impl FnOnce(&mut CommandEncoder)) -> CommandBuffer {
        let desc = wgpu::CommandEncoderDescriptor::default();
        let mut encoder = self.interop.device().create_command_encoder(&desc);
        record(&mut encoder);
        encoder.finish()
    }

    /// Copies the frame's picture to its texture.
    pub(super) fn draw(&self, encoder: &mut CommandEncoder, texture: &Texture, number: u32) {
        let picture = &self.pictures[drawn(number) as usize];
        encoder.copy_buffer_to_texture(self.rows(picture), texture.as_image_copy(), self.extent());
    }

    /// Copies the texture to a buffer, and its first and last part to mappable memory.
    pub(super) fn compose(&self, texture: &Texture, number: u32) -> CommandBuffer {
        self.encode(|encoder| {
            self.copy_out(encoder, texture, &self.composed);
            for (index, from) in [(0, 0), (1, self.bytes() - PART)] {
                encoder.copy_buffer_to_buffer(&self.composed, from, &self.parts, place(number) + index * PART, PART);
            }
        })
    }

    pub(super) fn copy_out(&self, encoder: &mut CommandEncoder, texture: &Texture, to: &wgpu::Buffer) {
        encoder.copy_texture_to_buffer(texture.as_image_copy(), self.rows(to), self.extent());
    }

    /// Keeps the index of a frame's composition.
    pub(super) fn submitted(&self, number: u32, index: SubmissionIndex) {
        self.submitted.borrow_mut()[slot(number)] = Some(index);
    }

    pub(super) fn wait_for(&self, index: SubmissionIndex) -> Verdict {
        let wait = wgpu::PollType::Wait { submission_index: Some(index), timeout: Some(PATIENCE) };
        self.interop.device().poll(wait).map(drop).map_err(failed)
    }

    fn read(&self, buffer: &wgpu::Buffer) -> Verdict<Vec<u8>> {
        // A failure is that of the range below.
        buffer.map_async(wgpu::MapMode::Read, .., |_| ());
        let all = wgpu::PollType::Wait { submission_index: None, timeout: Some(PATIENCE) };
        self.interop.device().poll(all).map_err(failed)?;
        let bytes = buffer.get_mapped_range(..).map_err(failed)?.to_vec();
        buffer.unmap();
        Ok(bytes)
    }

    pub(super) fn extent(&self) -> wgpu::Extent3d {
        wgpu::Extent3d { width: self.size[0], height: self.size[1], depth_or_array_layers: 1 }
    }

    /// Rows without gaps: a multiple of 256 bytes, as wgpu demands.
    pub(super) fn layout(&self) -> wgpu::TexelCopyBufferLayout {
        wgpu::TexelCopyBufferLayout { offset: 0, bytes_per_row: Some(self.size[0] * 4), rows_per_image: None }
    }

    fn rows<'b>(&self, buffer: &'b wgpu::Buffer) -> wgpu::TexelCopyBufferInfo<'b> {
        wgpu::TexelCopyBufferInfo { buffer, layout: self.layout() }
    }
}

impl Composer for WgpuSide {
    fn wait(&self, number: u32) -> Verdict {
        let index = self.submitted.borrow_mut()[slot(number)].take();
        self.wait_for(index.ok_or_else(|| Stop::failed(format!("the frame {number} was not composed")))?)
    }

    fn parts(&self) -> Verdict<Vec<u8>> {
        self.read(&self.parts)
    }

    fn composed(&self) -> Verdict<Vec<u8>> {
        let readable = buffer(&self.interop, self.bytes(), BufferUsages::COPY_DST | BufferUsages::MAP_READ);
        let copy = self.encode(|encoder| encoder.copy_buffer_to_buffer(&self.composed, 0, &readable, 0, self.bytes()));
        self.interop.queue().submit([copy]);
        self.read(&readable)
    }
}

pub(super) fn buffer(interop: &Interop, size: u64, usage: BufferUsages) -> wgpu::Buffer {
    let desc = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
    interop.device().create_buffer(&desc)
}

pub(super) fn failed(error: impl std::fmt::Display) -> Stop {
    Stop::failed(format!("wgpu: {error}"))
}

/// The device of `context`.
fn open(context: &HeadlessContext, compute: &Device) -> Verdict<Interop> {
    let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
    desc.backends = wgpu::Backends::VULKAN;
    desc.flags = wgpu::InstanceFlags::empty();
    let instance = wgpu::Instance::new(desc);
    for adapter in ready(instance.enumerate_adapters(wgpu::Backends::VULKAN))? {
        let desc = wgpu::DeviceDescriptor { required_limits: adapter.limits(), ..wgpu::DeviceDescriptor::default() };
        // Others may lack what sharing needs.
        let Ok((device, queue)) = request_device(&adapter, &desc) else { continue };
        if identity(&device)?.compare(context.identity()) == IdentityMatch::Same {
            return Interop::with_compute(&device, &queue, compute.clone()).map_err(too_much);
        }
    }
    Err(Stop::unsupported(format!("wgpu finds no device that shares and is {}", context.identity())))
}

/// The output of a future that native backends complete at once.
fn ready<T>(future: impl Future<Output = T>) -> Verdict<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => Ok(output),
        Poll::Pending => Err(failed("the adapters are not there at once")),
    }
}
