//! wgpu and compute on a shared texture, by `gpu-interop-wgpu`.

use std::cell::RefCell;

use gpu_interop::Stream;
use gpu_interop_conformance::{Stop, Verdict};
use gpu_interop_wgpu::{HandBack, SharedTexture};

use super::numbers::{IN_FLIGHT, slot};
use super::texels::{Mapping, Texels};
use super::way::{Composer, Way};
use super::wgpu_side::WgpuSide;
use crate::bench::machine::{Machine, too_much};

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

impl Way for Shared<'_> {
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
