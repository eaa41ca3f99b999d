//! Dispatches: their workgroups, and the waves of those.
//!
//! Waves run in turns on the caller's thread. Workgroups start one after another; if those that have started make no
//! progress, another one starts, because they may wait for it.

use std::cell::Cell;

use crate::decode::{Instruction, decode};
use crate::memory::{Bus, Memory, PAGE, Words};
use crate::tiling::AddressConfig;
use crate::wave::{Apertures, LANES, Mode, State, Wave, code};
use crate::{Result, Stop};

/// Description of a dispatch.
#[derive(Debug, Clone, Default)]
pub struct Launch {
    /// Address of the first instruction.
    pub program: u64,
    /// `COMPUTE_PGM_RSRC1` and `COMPUTE_PGM_RSRC2`.
    pub resources: [u32; 2],
    /// The first scalar registers.
    pub scalars: Vec<u32>,
    /// The first workgroup in each dimension.
    pub first: [u32; 3],
    /// Number of workgroups in each dimension.
    pub groups: [u32; 3],
    /// Work items of a workgroup in each dimension.
    pub group: [u32; 3],
    /// Work items of the last workgroup in each dimension; 0 if it is whole.
    pub last: [u32; 3],
    /// Bytes of LDS of a workgroup. The larger of this and what `resources` state counts.
    pub shared: u32,
    /// Private memory: the number of waves for which there is room, and bytes of each.
    pub scratch: (u32, u32),
    /// High words of the addresses through which flat instructions reach LDS, and private memory.
    pub apertures: [u32; 2],
    /// How tiled images are spread among pipes and banks.
    pub addresses: AddressConfig,
}

/// Result of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The dispatch has ended.
    Done,
    /// There is more to execute.
    More,
    /// All waves sleep: the caller may, too.
    Asleep,
}

/// What an instruction acts on.
#[derive(Debug)]
pub(crate) struct Unit<'a, 'm> {
    pub(crate) wave: &'a mut Wave,
    /// The workgroup's LDS.
    pub(crate) shared: &'a mut [u8],
    pub(crate) bus: &'a mut Bus<'m>,
    pub(crate) addresses: AddressConfig,
    /// The program may have changed.
    pub(crate) forget_code: bool,
}

/// A workgroup that has started.
#[derive(Debug)]
struct Group {
    waves: Vec<Wave>,
    shared: Vec<u8>,
    /// Its place among the groups that run, which determines its private memory.
    slot: u32,
}

/// A dispatch that is being executed.
#[derive(Debug)]
pub struct Dispatch {
    launch: Launch,
    mode: Mode,
    vectors: usize,
    /// The next workgroup to start.
    next: u64,
    running: Vec<Group>,
    /// Number of workgroups that may run at the same time.
    width: usize,
    code: Code,
    executed: u64,
}

/// Instructions of one wave before the next one's turn.
const TURN: u64 = 4096;
/// The most workgroups that run at the same time.
const WIDEST: usize = 64;

impl Dispatch {
    /// Prepares a dispatch.
    ///
    /// # Errors
    ///
    /// [`Stop::Launch`]: the description is invalid, or needs what is not emulated.
    pub fn new(launch: Launch) -> Result<Self> {
        let [first, second] = launch.resources;
        let items: u64 = launch.group.iter().map(|size| u64::from(*size)).product();
        if items == 0 || items > 1024 {
            return Err(Stop::Launch("a workgroup has 1 to 1024 work items"));
        }
        // MODE: rounding, denormal numbers, DX10_CLAMP and IEEE.
        let bits = first >> 12 & 0xff | (first >> 21 & 1) << 8 | (first >> 23 & 1) << 9;
        let mode = Mode::new(bits).ok_or(Stop::Launch("rounding other than to nearest even"))?;
        let from_resources = (second >> 15 & 0x1ff) * 512;
        let shared = launch.shared.max(from_resources);
        if shared > 65536 {
            return Err(Stop::Launch("a workgroup has at most 64 KiB of LDS"));
        }
        let vectors = ((first & 0x3f) + 1) as usize * 4;
        Ok(Self {
            launch: Launch { shared, ..launch },
            mode,
            vectors,
            next: 0,
            running: Vec::new(),
            width: 1,
            code: Code::of_thread(),
            executed: 0,
        })
    }

    /// Instructions of waves that were executed.
    pub fn executed(&self) -> u64 {
        self.executed
    }

    /// Executes about `budget` instructions. The address space must not change meanwhile, and may change afterwards.
    ///
    /// # Errors
    ///
    /// Any [`Stop`]. The dispatch cannot continue.
    pub fn run(&mut self, memory: &dyn Memory, budget: u64) -> Result<Progress> {
        let mut bus = Bus::new(memory);
        let end = self.executed + budget;
        let total = self.launch.groups.iter().map(|count| u64::from(*count)).product::<u64>();
        loop {
            while self.running.len() < self.width && self.next < total {
                let group = self.start();
                self.running.push(group);
            }
            if self.running.is_empty() {
                return Ok(Progress::Done);
            }
            let (mut awake, mut ended) = (false, false);
            let mut at = 0;
            while let Some(group) = self.running.get_mut(at) {
                for wave in &mut group.waves {
                    if wave.state == State::Ready {
                        self.executed +=
                            turn(wave, &mut group.shared, &mut bus, self.launch.addresses, &mut self.code)?;
                        awake |= wave.state != State::Asleep;
                    }
                }
                let all =
                    |state: State| group.waves.iter().all(|wave| wave.state == state || wave.state == State::Ended);
                if all(State::Ended) {
                    self.running.swap_remove(at);
                    ended = true;
                    continue;
                }
                if all(State::Barrier) {
                    wake(&mut group.waves, State::Barrier);
                    awake = true;
                }
                wake(&mut group.waves, State::Asleep);
                at += 1;
            }
            if !ended {
                let room = (self.launch.scratch.0 as usize / self.waves().max(1)).max(1);
                let widest = if self.launch.scratch.1 == 0 { WIDEST } else { WIDEST.min(room) };
                self.width = (self.width + 1).min(widest);
            }
            match () {
                () if !awake && !ended => return Ok(Progress::Asleep),
                () if self.executed >= end => return Ok(Progress::More),
                () => {}
            }
        }
    }

    fn waves(&self) -> usize {
        let items: u32 = self.launch.group.iter().product();
        items.div_ceil(LANES as u32) as usize
    }

    /// Starts the next workgroup.
    fn start(&mut self) -> Group {
        let launch = &self.launch;
        let [x, y, _] = launch.groups.map(u64::from);
        let index = [self.next % x, self.next / x % y, self.next / (x * y)].map(|part| part as u32);
        self.next += 1;
        let size: [u32; 3] = std::array::from_fn(|axis| {
            let last = index[axis] + 1 == launch.groups[axis] && launch.last[axis] != 0;
            if last { launch.last[axis] } else { launch.group[axis] }
        });
        let place = std::array::from_fn(|axis| launch.first[axis].wrapping_add(index[axis]));
        let items: u32 = size.iter().product();
        let slot = (0..).find(|slot| self.running.iter().all(|group| group.slot != *slot)).unwrap_or(0);
        let count = items.div_ceil(LANES as u32);
        let whole = self.waves() as u32;
        let waves = (0..count).map(|number| {
            let mut wave = Wave::new(
                self.vectors,
                self.mode,
                Apertures { shared: launch.apertures[0], private: launch.apertures[1] },
            );
            wave.pc = launch.program;
            let (most, bytes) = launch.scratch;
            // The last workgroup may have fewer waves than the others.
            let offset = (slot * whole + number) % most.max(1) * bytes;
            set_scalars(&mut wave, launch, place, [count, number], offset);
            let first = number * LANES as u32;
            let lanes = (items - first).min(LANES as u32);
            wave.set_pair(code::EXEC, if lanes == 64 { u64::MAX } else { (1 << lanes) - 1 });
            for lane in 0..lanes {
                let item = first + lane;
                let place = [item % size[0], item / size[0] % size[1], item / (size[0] * size[1])];
                for (vector, part) in wave.vectors.iter_mut().zip(place) {
                    vector[lane as usize] = part;
                }
            }
            wave
        });
        Group { waves: waves.collect(), shared: vec![0; launch.shared as usize], slot }
    }
}

fn wake(waves: &mut [Wave], from: State) {
    for wave in waves {
        if wave.state == from {
            wave.state = State::Ready;
        }
    }
}

/// Sets a wave's first scalar registers: the user's, then those that `COMPUTE_PGM_RSRC2` asks for.
fn set_scalars(wave: &mut Wave, launch: &Launch, group: [u32; 3], [count, number]: [u32; 2], scratch_offset: u32) {
    let second = launch.resources[1];
    let has = |bit: u32| second >> bit & 1 != 0;
    let user = (second >> 1 & 0x1f) as usize;
    for (register, value) in wave.scalars.iter_mut().zip(launch.scalars.iter().take(user)) {
        *register = *value;
    }
    // The wave's number, the number of waves, and whether it is the first one.
    let size = count | number << 6 | u32::from(number == 0) << 31;
    let asked = [(7, group[0]), (8, group[1]), (9, group[2]), (10, size), (0, scratch_offset)];
    let values = asked.into_iter().filter(|(bit, _)| has(*bit)).map(|(_, value)| value);
    for (register, value) in wave.scalars.iter_mut().skip(user).zip(values) {
        *register = value;
    }
}

/// Executes a wave until its turn ends or it waits. Returns the number of instructions.
fn turn(
    wave: &mut Wave,
    shared: &mut [u8],
    bus: &mut Bus<'_>,
    addresses: AddressConfig,
    code: &mut Code,
) -> Result<u64> {
    let mut unit = Unit { wave, shared, bus, addresses, forget_code: false };
    let mut count = 0;
    while count < TURN && unit.wave.state == State::Ready {
        let address = unit.wave.pc;
        let instruction = code.at(address, unit.bus)?;
        unit.wave.pc = address + instruction.length;
        count += 1;
        if let Err(stop) = (instruction.row.execute)(&mut unit, &instruction.fields) {
            return Err(located(stop, address, instruction));
        }
        if unit.forget_code {
            unit.forget_code = false;
            code.forget();
        }
    }
    Ok(count)
}

/// Adds the instruction to an error.
fn located(stop: Stop, address: u64, instruction: &Instruction) -> Stop {
    match stop {
        Stop::Unknown { reason, .. } => Stop::Unknown { address, words: instruction.to_string(), reason },
        other => other,
    }
}

/// Instructions of a page of memory.
#[derive(Debug)]
struct Page {
    number: u64,
    /// The words that the instructions were decoded from.
    words: Option<Words>,
    /// The check of [`Code`] at which memory had these words.
    checked: u64,
    instructions: Vec<Option<Instruction>>,
}

/// Instructions that were decoded. They outlive a dispatch, because most programs run often; each dispatch compares the
/// pages that it uses with memory.
#[derive(Debug, Default)]
struct Code {
    pages: Vec<Page>,
    last: usize,
    /// Counts the moments after which memory may differ.
    check: u64,
    /// The instruction whose second word is in the next page.
    crossing: Option<Instruction>,
}

thread_local! {
    /// The instructions of the dispatches that a thread executed.
    static CODE: Cell<Code> = const { Cell::new(Code { pages: Vec::new(), last: 0, check: 0, crossing: None }) };
}

/// The most pages that are kept.
const MOST_PAGES: usize = 256;

impl Code {
    /// The instructions of this thread's last dispatch, to be compared with memory.
    fn of_thread() -> Self {
        let mut code = CODE.take();
        if code.pages.len() > MOST_PAGES {
            code.pages.clear();
        }
        code.forget();
        code
    }

    fn at(&mut self, address: u64, bus: &mut Bus<'_>) -> Result<&Instruction> {
        let number = address / PAGE;
        if self.pages.get(self.last).is_none_or(|page| page.number != number || page.checked != self.check) {
            self.last = self.page(number, bus);
        }
        let slot = &mut self.pages[self.last].instructions[(address % PAGE / 4) as usize];
        if let Some(instruction) = slot {
            return Ok(instruction);
        }
        let first = bus.load(address, 4)? as u32;
        // The last instruction of a mapping may have one word.
        let second = bus.load(address + 4, 4).map_or(0, |word| word as u32);
        let unknown = |reason| Stop::Unknown { address, words: format!("{first:08x} {second:08x}"), reason };
        let decoded = decode([first, second]).map_err(unknown)?;
        if let Some(reason) = decoded.reserved() {
            return Err(unknown(reason));
        }
        #[cfg(all(test, target_os = "linux"))]
        crate::check::rows::record(&decoded);
        let crosses = address % PAGE + decoded.length() > PAGE;
        Ok(if crosses { self.crossing.insert(decoded) } else { slot.insert(decoded) })
    }

    /// The place of a page, which has the words of memory.
    fn page(&mut self, number: u64, bus: &mut Bus<'_>) -> usize {
        let words = bus.page(number * PAGE);
        let place = self.pages.iter().position(|page| page.number == number).unwrap_or_else(|| {
            self.pages.push(Page { number, words: None, checked: 0, instructions: Vec::new() });
            self.pages.len() - 1
        });
        let page = &mut self.pages[place];
        if words.is_none() || page.words != words {
            page.instructions = vec![None; (PAGE / 4) as usize];
            page.words = words;
        }
        page.checked = self.check;
        place
    }

    /// Makes the next use of each page compare it with memory.
    fn forget(&mut self) {
        self.check += 1;
    }
}

impl Drop for Dispatch {
    fn drop(&mut self) {
        CODE.set(std::mem::take(&mut self.code));
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use crate::check::space::Space;

    /// A program that stores a constant at the address in its first two scalar registers.
    fn program(constant: u32) -> Vec<u8> {
        let words = [
            // v_mov_b32 v0, s0; v_mov_b32 v1, s1; v_mov_b32 v2, constant; global_store_dword v[0:1], v2, off; s_endpgm
            0x7e00_0200,
            0x7e02_0201,
            0x7e04_02ff,
            constant,
            0xdc70_8000,
            0x007f_0200,
            0xbf81_0000,
        ];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
        bytes.resize(PAGE as usize, 0);
        bytes
    }

    #[test]
    fn a_program_that_replaced_another_one_is_decoded_again() {
        for constant in [7, 8, 8, 9] {
            // The mappings of every space begin at the same address.
            let mut space = Space::default();
            let (at, result) = (space.map(&program(constant), false), space.map(&[0; 64], true));
            let launch = Launch {
                program: at,
                resources: [0, 2 << 1],
                scalars: vec![result as u32, (result >> 32) as u32],
                groups: [1; 3],
                group: [1; 3],
                ..Launch::default()
            };
            let mut dispatch = Dispatch::new(launch).unwrap();
            assert_eq!(dispatch.run(&space, 1000), Ok(Progress::Done));
            assert_eq!(space.words(result)[0], constant);
        }
    }
}
