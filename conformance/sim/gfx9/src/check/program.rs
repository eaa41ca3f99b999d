//! Code objects, and dispatches of their kernels.

use object::LittleEndian;
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSegment as _, ObjectSymbol as _};

use super::space::Space;
use crate::{Dispatch, Launch, Progress, Stop};

/// High words of the addresses of LDS and private memory.
const APERTURES: [u32; 2] = [0x1_0000, 0x2_0000];
/// Waves that have private memory at the same time.
const SCRATCH_WAVES: u32 = 64;

/// A code object in an address space.
#[derive(Debug)]
pub(crate) struct Program {
    image: Vec<u8>,
    base: u64,
    symbols: Vec<(String, u64)>,
}

/// Workgroups, and work items of each, and of the last ones.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Grid {
    pub(crate) groups: [u32; 3],
    pub(crate) group: [u32; 3],
    pub(crate) last: [u32; 3],
}

impl Grid {
    /// Work items in a row.
    pub(crate) const fn line(items: u32, group: u32) -> Self {
        Self { groups: [items.div_ceil(group), 1, 1], group: [group, 1, 1], last: [items % group, 0, 0] }
    }

    fn items(&self) -> [u32; 3] {
        std::array::from_fn(|axis| {
            let last = if self.last[axis] == 0 { self.group[axis] } else { self.last[axis] };
            (self.groups[axis] - 1) * self.group[axis] + last
        })
    }
}

impl Program {
    /// Maps a code object.
    pub(crate) fn load(space: &mut Space, file: &[u8]) -> Self {
        let elf = ElfFile64::<LittleEndian>::parse(file).expect("a code object");
        let end = elf.segments().map(|segment| segment.address() + segment.size()).max().expect("segments");
        let mut image = vec![0; end as usize];
        for segment in elf.segments() {
            let data = segment.data().expect("a segment");
            image[segment.address() as usize..][..data.len()].copy_from_slice(data);
        }
        assert!(elf.dynamic_relocations().is_none_or(|mut all| all.next().is_none()), "relocations are not emulated");
        let symbols = elf.symbols().filter_map(|symbol| Some((symbol.name().ok()?.to_owned(), symbol.address())));
        let symbols = symbols.collect();
        let base = space.map(&image, true);
        Self { image, base, symbols }
    }

    /// Prepares a dispatch of a kernel with the words of its arguments.
    pub(crate) fn dispatch(&self, space: &mut Space, name: &str, grid: Grid, arguments: &[u8]) -> Dispatch {
        let descriptor = format!("{name}.kd");
        let (_, at) = self.symbols.iter().find(|(name, _)| *name == descriptor).expect("a kernel");
        let word = |offset: u64| {
            let at = (at + offset) as usize;
            u32::from_le_bytes(self.image[at..at + 4].try_into().unwrap())
        };
        let entry = u64::from(word(20)) << 32 | u64::from(word(16));
        let private = word(4);
        let bytes = (private * 64).next_multiple_of(1024);
        let scratch = space.map(&vec![0xa5; (bytes * SCRATCH_WAVES).max(8) as usize], true);
        let mut padded = arguments.to_vec();
        padded.resize((word(8) as usize).max(arguments.len()).max(8), 0);
        let arguments = space.map(&padded, false);
        let packet = space.map(&packet(grid), false);
        let properties = word(56);
        let mut scalars = Vec::new();
        let address = |address: u64| [address as u32, (address >> 32) as u32];
        // A swizzled buffer of 4-byte elements whose index is the lane.
        let buffer = [scratch as u32, (scratch >> 32) as u32 | 1 << 31, u32::MAX, 3 << 21 | 1 << 23];
        let parts: [&[u32]; 7] = [
            &buffer,
            &address(packet),
            &address(0),
            &address(arguments),
            &address(0),
            &address(scratch),
            &[bytes / 64],
        ];
        for (bit, part) in parts.into_iter().enumerate() {
            if properties >> bit & 1 != 0 {
                scalars.extend(part);
            }
        }
        Dispatch::new(Launch {
            program: (self.base + at).wrapping_add(entry),
            resources: [word(48), word(52)],
            scalars,
            first: [0; 3],
            groups: grid.groups,
            group: grid.group,
            last: grid.last,
            shared: word(0),
            scratch: if private == 0 { (SCRATCH_WAVES, 0) } else { (SCRATCH_WAVES, bytes) },
            apertures: APERTURES,
            addresses: crate::AddressConfig::default(),
        })
        .expect("a launch")
    }
}

/// The packet of a dispatch, from which kernels read sizes.
fn packet(grid: Grid) -> Vec<u8> {
    let mut packet = vec![0; 4];
    packet.extend(grid.group.iter().flat_map(|size| (*size as u16).to_le_bytes()));
    packet.extend([0; 2]);
    packet.extend(grid.items().iter().flat_map(|size| size.to_le_bytes()));
    packet.resize(64, 0);
    packet
}

/// Executes a dispatch to its end, and returns the number of instructions.
pub(crate) fn finish(dispatch: &mut Dispatch, space: &Space) -> Result<u64, Stop> {
    while dispatch.run(space, 1 << 20)? != Progress::Done {}
    Ok(dispatch.executed())
}
