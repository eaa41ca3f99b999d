//! wgpu and compute without interop: each frame through host memory, twice.

use std::cell::RefCell;

use gpu_interop::Stream;
use gpu_interop_conformance::{Stop, Verdict};
use gpu_interop_wgpu::wgpu;
use wgpu::{BufferUsages, SubmissionIndex};

use super::numbers::{IN_FLIGHT, length, slot};
use super::texels::{Mapping, Texels};
use super::way::{Composer, Way};
use super::wgpu_side::{WgpuSide, buffer, failed};
use crate::bench::machine::Machine;

pub(super) struct Readback<'a> {
    side: &'a WgpuSide,
    stream: &'a Stream,
    texels: Texels<'a>,
    frames: Vec<(wgpu::Texture, wgpu::Buffer)>,
    drawn: RefCell<[Option<SubmissionIndex>; IN_FLIGHT as usize]>,
    /// What compute wrote, on its way back.
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

impl Way for Readback<'_> {
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
