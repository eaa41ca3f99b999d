//! wgpu's device, and its commands on a frame.

use std::cell::RefCell;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use gpu_interop::vulkan::HeadlessContext;
use gpu_interop::{Device, IdentityMatch, Stream};
use gpu_interop_conformance::{Pattern, Stop, Verdict};
use gpu_interop_wgpu::{HandBack, Interop, SharedTexture, identity, request_device, wgpu};
use wgpu::{BufferUsages, CommandBuffer, CommandEncoder, SubmissionIndex, Texture, TextureUsages};

use super::{
    Composer, FrameVariant, IN_FLIGHT, Mapping, PART, PARTS, PICTURES, Texels, drawn, length, parts_offset, slot,
};
use crate::machine::{Machine, WAIT_TIMEOUT, too_much};

/// A device of wgpu with the pictures that it draws, and the composed frames.
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

    fn texture_desc(&self) -> wgpu::TextureDescriptor<'static> {
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

    fn encode(&self, record: impl FnOnce(&mut CommandEncoder)) -> CommandBuffer {
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
    fn compose(&self, texture: &Texture, number: u32) -> CommandBuffer {
        self.encode(|encoder| {
            self.copy_out(encoder, texture, &self.composed);
            for (index, from) in [(0, 0), (1, self.bytes() - PART)] {
                encoder.copy_buffer_to_buffer(
                    &self.composed,
                    from,
                    &self.parts,
                    parts_offset(number) + index * PART,
                    PART,
                );
            }
        })
    }

    fn copy_out(&self, encoder: &mut CommandEncoder, texture: &Texture, to: &wgpu::Buffer) {
        encoder.copy_texture_to_buffer(texture.as_image_copy(), self.rows(to), self.extent());
    }

    /// Keeps the index of a frame's composition.
    pub(super) fn submitted(&self, number: u32, index: SubmissionIndex) {
        self.submitted.borrow_mut()[slot(number)] = Some(index);
    }

    pub(super) fn wait_for(&self, index: SubmissionIndex) -> Verdict {
        let wait = wgpu::PollType::Wait { submission_index: Some(index), timeout: Some(WAIT_TIMEOUT) };
        self.interop.device().poll(wait).map(drop).map_err(failed)
    }

    fn read(&self, buffer: &wgpu::Buffer) -> Verdict<Vec<u8>> {
        // A failure is that of the range below.
        buffer.map_async(wgpu::MapMode::Read, .., |_| ());
        let all = wgpu::PollType::Wait { submission_index: None, timeout: Some(WAIT_TIMEOUT) };
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
        // Other devices may lack a requirement of sharing.
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

/// wgpu and compute on a shared texture, by `gpu-interop-wgpu`.
pub(super) struct Shared<'a> {
    side: &'a WgpuSide,
    stream: &'a Stream,
    /// Dropped before the textures, whose surfaces it has.
    texels: Texels<'a>,
    textures: Vec<SharedTexture>,
    hand_backs: RefCell<[Option<HandBack>; IN_FLIGHT as usize]>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(machine: &'a Machine, side: &'a WgpuSide) -> Verdict<Self> {
        side.interop.reserve(IN_FLIGHT as usize)?;
        let create = |_| side.interop.create_texture(&side.texture_desc()).map_err(too_much);
        let textures = (0..IN_FLIGHT).map(create).collect::<Verdict<Vec<_>>>()?;
        let arrays: Vec<_> = textures.iter().filter_map(SharedTexture::array).collect();
        let texels = Texels::new(machine, side.size, &arrays)?;
        Ok(Self { side, stream: &machine.stream, texels, textures, hand_backs: RefCell::default() })
    }
}

impl FrameVariant for Shared<'_> {
    fn begin(&self, number: u32) -> Verdict {
        let texture = &self.textures[slot(number)];
        let draw = self.side.encode(|encoder| self.side.draw(encoder, texture.wgpu(), number));
        let compute = self.side.interop.submit_and_begin_compute([draw], self.stream, &[texture])?;
        let mapping = match (texture.array(), texture.linear(0, 0)) {
            (Some(array), _) => Mapping::Array(array),
            (None, Some((texels, layout))) => Mapping::Linear(texels, layout.row_pitch),
            (None, None) => return Err(Stop::failed("a texture without a mapping".into())),
        };
        self.texels.work(number, mapping)?;
        self.hand_backs.borrow_mut()[slot(number)] = Some(compute.signal()?);
        Ok(())
    }

    fn finish(&self, number: u32) -> Verdict {
        let back = self.hand_backs.borrow_mut()[slot(number)].take();
        let back = back.ok_or_else(|| Stop::failed(format!("the frame {number} was not begun")))?;
        let compose = self.side.compose(self.textures[slot(number)].wgpu(), number);
        self.side.submitted(number, back.acquire_and_submit([compose])?);
        Ok(())
    }

    fn composer(&self) -> &dyn Composer {
        self.side
    }

    fn texels(&self) -> &Texels<'_> {
        &self.texels
    }
}

/// wgpu and compute without interop: each frame through host memory, twice.
pub(super) struct Readback<'a> {
    side: &'a WgpuSide,
    stream: &'a Stream,
    texels: Texels<'a>,
    frames: Vec<(wgpu::Texture, wgpu::Buffer)>,
    drawn: RefCell<[Option<SubmissionIndex>; IN_FLIGHT as usize]>,
    /// Texels that compute wrote, copied back through the host.
    host: RefCell<Vec<u8>>,
}

impl<'a> Readback<'a> {
    pub(super) fn new(machine: &'a Machine, side: &'a WgpuSide) -> Verdict<Self> {
        let create = |_| {
            let texture = side.interop.device().create_texture(&side.texture_desc());
            (texture, buffer(&side.interop, side.bytes(), BufferUsages::COPY_DST | BufferUsages::MAP_READ))
        };
        Ok(Self {
            side,
            stream: &machine.stream,
            texels: Texels::new(machine, side.size, &[])?,
            frames: (0..IN_FLIGHT).map(create).collect(),
            drawn: RefCell::default(),
            host: RefCell::new(vec![0; length(side.bytes())]),
        })
    }
}

impl FrameVariant for Readback<'_> {
    fn begin(&self, number: u32) -> Verdict {
        let (texture, readable) = &self.frames[slot(number)];
        let draw = self.side.encode(|encoder| {
            self.side.draw(encoder, texture, number);
            self.side.copy_out(encoder, texture, readable);
        });
        let index = self.side.interop.queue().submit([draw]);
        // A failure is that of the range in `finish`.
        readable.map_async(wgpu::MapMode::Read, .., |_| ());
        self.drawn.borrow_mut()[slot(number)] = Some(index);
        Ok(())
    }

    fn finish(&self, number: u32) -> Verdict {
        let drawn = self.drawn.borrow_mut()[slot(number)].take();
        self.side.wait_for(drawn.ok_or_else(|| Stop::failed(format!("the frame {number} was not begun")))?)?;
        let (texture, readable) = &self.frames[slot(number)];
        let own = self.texels.own()?;
        {
            let mapped = readable.get_mapped_range(..).map_err(failed)?;
            self.stream.write(own, &mapped)?;
        }
        readable.unmap();
        self.texels.work(number, Mapping::Linear(own, u64::from(self.side.size[0]) * 4))?;
        let mut host = self.host.borrow_mut();
        self.stream.read(own, &mut host)?;
        let queue = self.side.interop.queue();
        queue.write_texture(texture.as_image_copy(), &host, self.side.layout(), self.side.extent());
        self.side.submitted(number, queue.submit([self.side.compose(texture, number)]));
        Ok(())
    }

    fn composer(&self) -> &dyn Composer {
        self.side
    }

    fn texels(&self) -> &Texels<'_> {
        &self.texels
    }
}
