//! Instructions that access memory: scalar, flat, and through buffer descriptors.

use std::sync::atomic::{Ordering, fence};

use super::{Access, Execute, Row, Shape, row};
use crate::buffer::{Descriptor, place};
use crate::decode::{Fields, flag};
use crate::dispatch::Unit;
use crate::format::Format;
use crate::memory::Window;
use crate::wave::{Apertures, LANES, code};
use crate::{Result, unknown};

/// The scalar offset of SMEM and its immediate one.
fn scalar_offset(unit: &Unit<'_, '_>, fields: &Fields) -> Result<i64> {
    let immediate = fields.bits & flag::SMEM_IMMEDIATE != 0;
    let register = fields.bits & flag::SMEM_SOFFSET != 0 || !immediate;
    let offset = if register { unit.wave.scalar::<u32>(fields.sources[3], 0)? } else { 0 };
    Ok(i64::from(offset) + i64::from(fields.offset))
}

fn scalar_address(unit: &Unit<'_, '_>, fields: &Fields) -> Result<u64> {
    let address = unit.wave.pair(fields.scalar).wrapping_add_signed(scalar_offset(unit, fields)?);
    Ok(address & !3)
}

fn scalar_load(unit: &mut Unit<'_, '_>, fields: &Fields, words: u16) -> Result<()> {
    let address = scalar_address(unit, fields)?;
    for word in 0..words {
        let value = unit.bus.load(address + u64::from(word) * 4, 4)? as u32;
        unit.wave.set_scalar(fields.destination + word, value)?;
    }
    Ok(())
}

/// Loads through a descriptor; beyond the buffer's end there are zeroes.
fn scalar_buffer_load(unit: &mut Unit<'_, '_>, fields: &Fields, words: u16) -> Result<()> {
    let descriptor = Descriptor::read(unit.wave, fields.scalar)?;
    let offset = scalar_offset(unit, fields)?.cast_unsigned() & !3;
    for word in 0..words {
        let at = offset + u64::from(word) * 4;
        let inside = descriptor.contains(at, 4);
        let value = if inside { unit.bus.load(descriptor.base + at, 4)? as u32 } else { 0 };
        unit.wave.set_scalar(fields.destination + word, value)?;
    }
    Ok(())
}

fn scalar_store(unit: &mut Unit<'_, '_>, fields: &Fields, words: u16) -> Result<()> {
    let address = scalar_address(unit, fields)?;
    for word in 0..words {
        let value: u32 = unit.wave.scalar(fields.destination + word, 0)?;
        unit.bus.store(address + u64::from(word) * 4, 4, value.into())?;
    }
    Ok(())
}

macro_rules! scalar {
    ($function:ident, $words:literal, $shape:ident) => {
        (Access::$shape($words), (|unit, fields| $function(unit, fields, $words)) as Execute)
    };
}

/// Nothing to do: caches are not emulated, and the processor's own stores are visible before the accesses that follow.
const CACHE: (Shape, Execute) = (Access::nothing(), |_, _| {
    fence(Ordering::SeqCst);
    Ok(())
});

pub(super) static SMEM: &[Row] = &[
    row(0, "s_load_dword", scalar!(scalar_load, 1, load)),
    row(1, "s_load_dwordx2", scalar!(scalar_load, 2, load)),
    row(2, "s_load_dwordx4", scalar!(scalar_load, 4, load)),
    row(3, "s_load_dwordx8", scalar!(scalar_load, 8, load)),
    row(4, "s_load_dwordx16", scalar!(scalar_load, 16, load)),
    row(8, "s_buffer_load_dword", scalar!(scalar_buffer_load, 1, load_described)),
    row(9, "s_buffer_load_dwordx2", scalar!(scalar_buffer_load, 2, load_described)),
    row(10, "s_buffer_load_dwordx4", scalar!(scalar_buffer_load, 4, load_described)),
    row(11, "s_buffer_load_dwordx8", scalar!(scalar_buffer_load, 8, load_described)),
    row(12, "s_buffer_load_dwordx16", scalar!(scalar_buffer_load, 16, load_described)),
    row(16, "s_store_dword", scalar!(scalar_store, 1, store)),
    row(17, "s_store_dwordx2", scalar!(scalar_store, 2, store)),
    row(18, "s_store_dwordx4", scalar!(scalar_store, 4, store)),
    row(32, "s_dcache_inv", CACHE),
    row(33, "s_dcache_wb", CACHE),
    row(34, "s_dcache_inv_vol", CACHE),
    row(35, "s_dcache_wb_vol", CACHE),
    row(36, "s_memtime", (Access::result(2), clock)),
    row(37, "s_memrealtime", (Access::result(2), clock)),
];

/// A counter of 100 MHz.
fn clock(unit: &mut Unit<'_, '_>, fields: &Fields) -> Result<()> {
    static START: std::sync::LazyLock<std::time::Instant> = std::sync::LazyLock::new(std::time::Instant::now);
    unit.wave.set_scalar(fields.destination, (START.elapsed().as_nanos() / 10) as u64)
}

/// How the bytes of an access and the register correspond.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Whole words.
    Words(u8),
    /// A number of 8 or 16 bits, extended to a word.
    Unsigned(u8),
    Signed(u8),
    /// A number of 8 or 16 bits, extended to half a word; the other half stays.
    Low(Extend),
    High(Extend),
}

/// The bits of a number that becomes 16 bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extend {
    Byte,
    SignedByte,
    Short,
}

impl Part {
    pub(super) const fn bytes(self) -> u32 {
        match self {
            Self::Words(words) => words as u32 * 4,
            Self::Unsigned(bits) | Self::Signed(bits) => bits as u32 / 8,
            Self::Low(Extend::Short) | Self::High(Extend::Short) => 2,
            Self::Low(_) | Self::High(_) => 1,
        }
    }
}

/// The register of a lane after a load of a number smaller than a word.
pub(super) fn loaded(part: Part, value: u32, old: u32) -> u32 {
    let half = |extend: Extend| match extend {
        Extend::Byte => value & 0xff,
        Extend::SignedByte => i32::from(value as i8).cast_unsigned() & 0xffff,
        Extend::Short => value & 0xffff,
    };
    match part {
        Part::Words(_) | Part::Unsigned(_) => value,
        Part::Signed(8) => i32::from(value as i8).cast_unsigned(),
        Part::Signed(_) => i32::from(value as i16).cast_unsigned(),
        Part::Low(extend) => old & 0xffff_0000 | half(extend),
        Part::High(extend) => old & 0xffff | half(extend) << 16,
    }
}

/// Where a lane's flat access goes.
enum Target {
    Global(u64),
    /// An offset in LDS.
    Shared(u32),
}

/// The accesses of all lanes to global memory, if one mapping contains them.
#[inline]
fn window(unit: &mut Unit<'_, '_>, fields: &Fields, words: u8, write: bool) -> Result<Option<Window>> {
    use super::Encoding::{Flat, Global};
    let first = usize::from(fields.sources[0]);
    let offset = i64::from(fields.offset);
    let active = unit.wave.exec();
    let addresses = match fields.encoding {
        Global if fields.scalar != NO_SCALAR => {
            let low = unit.wave.vector(first)?;
            let base = unit.wave.scalar::<u64>(fields.scalar, 0)?.wrapping_add_signed(offset);
            low.map(|low| base.wrapping_add(low.into()))
        }
        Global | Flat => {
            let (low, high) = (unit.wave.vector(first)?, unit.wave.vector(first + 1)?);
            std::array::from_fn(|lane| (u64::from(high[lane]) << 32 | u64::from(low[lane])).wrapping_add_signed(offset))
        }
        // A scratch instruction with a scalar address names a vector register that need not exist.
        _ => return Ok(None),
    };
    let Apertures { shared, private } = unit.wave.apertures;
    let elsewhere = |high: u32| high != 0 && (high == shared || high == private);
    if fields.encoding == Flat && addresses.iter().any(|address| elsewhere((address >> 32) as u32)) {
        return Ok(None);
    }
    Ok(unit.bus.window(&addresses, active, words, write))
}

/// The address of a lane of a flat, global or scratch instruction.
fn flat_address(unit: &Unit<'_, '_>, fields: &Fields, lane: usize) -> Result<Target> {
    use super::Encoding::{Flat, Global};
    let first = usize::from(fields.sources[0]);
    let offset = i64::from(fields.offset);
    let no_scalar = fields.scalar == NO_SCALAR;
    let address = match fields.encoding {
        Global if !no_scalar => {
            let base: u64 = unit.wave.scalar(fields.scalar, 0)?;
            base.wrapping_add(unit.wave.vector(first)?[lane].into()).wrapping_add_signed(offset)
        }
        Global | Flat => {
            let (low, high) = (unit.wave.vector(first)?[lane], unit.wave.vector(first + 1)?[lane]);
            (u64::from(high) << 32 | u64::from(low)).wrapping_add_signed(offset)
        }
        _ => {
            let base = if no_scalar { unit.wave.vector(first)?[lane] } else { unit.wave.scalar(fields.scalar, 0)? };
            return Ok(Target::Global(private_address(unit, i64::from(base) + offset, lane)));
        }
    };
    if fields.encoding == Flat {
        let (high, low) = ((address >> 32) as u32, address as u32);
        let apertures = unit.wave.apertures;
        if apertures.shared != 0 && high == apertures.shared {
            return Ok(Target::Shared(low));
        }
        if apertures.private != 0 && high == apertures.private {
            return Ok(Target::Global(private_address(unit, low.into(), lane)));
        }
    }
    Ok(Target::Global(address))
}

/// The code of the scalar address that states that there is none.
const NO_SCALAR: u16 = 0x7f;

/// The address of a byte of a lane's private memory, whose words lie beside those of the other lanes.
fn private_address(unit: &Unit<'_, '_>, offset: i64, lane: usize) -> u64 {
    let base = unit.wave.pair(code::FLAT_SCRATCH);
    let swizzled = (offset >> 2) * 256 + lane as i64 * 4 + (offset & 3);
    base.wrapping_add_signed(swizzled)
}

fn read_target(unit: &mut Unit<'_, '_>, target: &Target, at: u64, size: u64) -> Result<u64> {
    match target {
        Target::Global(address) => unit.bus.load(address.wrapping_add(at), size),
        Target::Shared(offset) => Ok(super::shared::load(unit.shared, u64::from(*offset) + at, size)),
    }
}

fn write_target(unit: &mut Unit<'_, '_>, target: &Target, at: u64, size: u64, value: u64) -> Result<()> {
    match target {
        Target::Global(address) => unit.bus.store(address.wrapping_add(at), size, value),
        Target::Shared(offset) => {
            super::shared::store(unit.shared, u64::from(*offset) + at, size, value);
            Ok(())
        }
    }
}

/// The distance between words of one lane's access: private words lie beside those of the other lanes.
fn word_distance(fields: &Fields, unit: &Unit<'_, '_>, lane: usize) -> Result<u64> {
    use super::Encoding::{Flat, Scratch};
    Ok(match fields.encoding {
        Scratch => 256,
        Flat if unit.wave.apertures.private != 0 => {
            let high = unit.wave.vector(usize::from(fields.sources[0]) + 1)?[lane];
            if high == unit.wave.apertures.private { 256 } else { 4 }
        }
        _ => 4,
    })
}

fn load(unit: &mut Unit<'_, '_>, fields: &Fields, part: Part) -> Result<()> {
    if fields.bits & flag::FLAT_LDS != 0 {
        return Err(unknown("a load into LDS"));
    }
    if let Part::Words(words) = part
        && let Some(window) = window(unit, fields, words, false)?
    {
        let register = usize::from(fields.destination);
        let pairs = if window.has_pairs() { words / 2 } else { 0 };
        for word in (0..pairs).map(|pair| pair * 2) {
            let values = std::array::from_fn::<u64, LANES, _>(|lane| window.load_pair(lane, word));
            unit.wave.set_active(register + usize::from(word), |lane| values[lane] as u32)?;
            unit.wave.set_active(register + usize::from(word) + 1, |lane| (values[lane] >> 32) as u32)?;
        }
        for word in pairs * 2..words {
            unit.wave.set_active(register + usize::from(word), |lane| window.load(lane, word))?;
        }
        return Ok(());
    }
    for lane in unit.wave.active() {
        let target = flat_address(unit, fields, lane)?;
        if let Part::Words(words) = part {
            let distance = word_distance(fields, unit, lane)?;
            for word in 0..words {
                let value = read_target(unit, &target, u64::from(word) * distance, 4)? as u32;
                unit.wave.vector_mut(usize::from(fields.destination) + usize::from(word))?[lane] = value;
            }
        } else {
            let value = read_target(unit, &target, 0, part.bytes().into())? as u32;
            let register = &mut unit.wave.vector_mut(fields.destination.into())?[lane];
            *register = loaded(part, value, *register);
        }
    }
    Ok(())
}

fn store(unit: &mut Unit<'_, '_>, fields: &Fields, part: Part) -> Result<()> {
    let data = usize::from(fields.sources[1]);
    if let Part::Words(words) = part
        && let Some(window) = window(unit, fields, words, true)?
    {
        let all = unit.wave.exec() == u64::MAX;
        let pairs = if all && window.has_pairs() { words / 2 } else { 0 };
        for word in (0..pairs).map(|pair| pair * 2) {
            let low = unit.wave.vector(data + usize::from(word))?;
            let high = unit.wave.vector(data + usize::from(word) + 1)?;
            for (lane, (low, high)) in low.iter().zip(high).enumerate() {
                window.store_pair(lane, word, u64::from(*high) << 32 | u64::from(*low));
            }
        }
        for word in pairs * 2..words {
            let register = unit.wave.vector(data + usize::from(word))?;
            if all {
                for (lane, value) in register.iter().enumerate() {
                    window.store(lane, word, *value);
                }
                continue;
            }
            for lane in unit.wave.active() {
                window.store(lane, word, register[lane]);
            }
        }
        return Ok(());
    }
    for lane in unit.wave.active() {
        let target = flat_address(unit, fields, lane)?;
        if let Part::Words(words) = part {
            let distance = word_distance(fields, unit, lane)?;
            for word in 0..words {
                let value = unit.wave.vector(data + usize::from(word))?[lane];
                write_target(unit, &target, u64::from(word) * distance, 4, value.into())?;
            }
        } else {
            let value = stored(part, unit.wave.vector(data)?[lane]);
            write_target(unit, &target, 0, part.bytes().into(), value.into())?;
        }
    }
    Ok(())
}

/// The part of a register that a store of less than a word writes.
pub(super) fn stored(part: Part, register: u32) -> u32 {
    if matches!(part, Part::High(_)) { register >> 16 } else { register }
}

/// An atomic operation on a word of a size: what it becomes, of what it was, the data, and the data to compare with.
pub(super) type Operation = fn(old: u64, data: u64, compare: u64, size: u64) -> u64;

pub(super) mod operation {
    //! The atomic operations.

    const fn signed(value: u64, size: u64) -> i64 {
        if size == 4 { value as u32 as i32 as i64 } else { value.cast_signed() }
    }

    pub(crate) fn swap(_: u64, data: u64, _: u64, _: u64) -> u64 {
        data
    }

    /// The data is written if the word is the second operand.
    pub(crate) fn compare_swap(old: u64, data: u64, compare: u64, _: u64) -> u64 {
        if old == compare { data } else { old }
    }

    pub(crate) fn add(old: u64, data: u64, _: u64, _: u64) -> u64 {
        old.wrapping_add(data)
    }

    pub(crate) fn sub(old: u64, data: u64, _: u64, _: u64) -> u64 {
        old.wrapping_sub(data)
    }

    pub(crate) fn reverse_sub(old: u64, data: u64, _: u64, _: u64) -> u64 {
        data.wrapping_sub(old)
    }

    pub(crate) fn signed_min(old: u64, data: u64, _: u64, size: u64) -> u64 {
        if signed(data, size) < signed(old, size) { data } else { old }
    }

    pub(crate) fn unsigned_min(old: u64, data: u64, _: u64, _: u64) -> u64 {
        old.min(data)
    }

    pub(crate) fn signed_max(old: u64, data: u64, _: u64, size: u64) -> u64 {
        if signed(data, size) > signed(old, size) { data } else { old }
    }

    pub(crate) fn unsigned_max(old: u64, data: u64, _: u64, _: u64) -> u64 {
        old.max(data)
    }

    pub(crate) fn and(old: u64, data: u64, _: u64, _: u64) -> u64 {
        old & data
    }

    pub(crate) fn or(old: u64, data: u64, _: u64, _: u64) -> u64 {
        old | data
    }

    pub(crate) fn xor(old: u64, data: u64, _: u64, _: u64) -> u64 {
        old ^ data
    }

    /// Counts up to the data, then from 0 again.
    pub(crate) fn increment(old: u64, data: u64, _: u64, _: u64) -> u64 {
        if old >= data { 0 } else { old + 1 }
    }

    /// Counts down from the data.
    pub(crate) fn decrement(old: u64, data: u64, _: u64, _: u64) -> u64 {
        if old == 0 || old > data { data } else { old - 1 }
    }
}

/// A register, or a pair of them.
pub(super) fn data_word(unit: &Unit<'_, '_>, number: usize, size: u64, lane: usize) -> Result<u64> {
    let low = u64::from(unit.wave.vector(number)?[lane]);
    Ok(if size == 8 { u64::from(unit.wave.vector(number + 1)?[lane]) << 32 | low } else { low })
}

pub(super) fn set_data_word(unit: &mut Unit<'_, '_>, number: usize, size: u64, lane: usize, value: u64) -> Result<()> {
    unit.wave.vector_mut(number)?[lane] = value as u32;
    if size == 8 {
        unit.wave.vector_mut(number + 1)?[lane] = (value >> 32) as u32;
    }
    Ok(())
}

fn atomic(unit: &mut Unit<'_, '_>, fields: &Fields, size: u64, operation: Operation) -> Result<()> {
    let data = usize::from(fields.sources[1]);
    for lane in unit.wave.active() {
        let value = data_word(unit, data, size, lane)?;
        // Read even where the operation has no second operand, in which case it may be no register.
        let compare = data_word(unit, data + (size / 4) as usize, size, lane).unwrap_or(0);
        let old = match flat_address(unit, fields, lane)? {
            Target::Global(address) => unit.bus.atomic(address, size, |old| operation(old, value, compare, size))?,
            Target::Shared(offset) => {
                let old = super::shared::load(unit.shared, offset.into(), size);
                super::shared::store(unit.shared, offset.into(), size, operation(old, value, compare, size));
                old
            }
        };
        if fields.bits & flag::FLAT_GLC != 0 {
            set_data_word(unit, fields.destination.into(), size, lane, old)?;
        }
    }
    Ok(())
}

macro_rules! part {
    ($function:ident, $shape:ident, $registers:literal, $part:expr) => {
        (Access::$shape($registers), (|unit, fields| $function(unit, fields, $part)) as Execute)
    };
}

/// Rows of loads and stores, with the prefix of their encoding, their functions, and the shape of the loads of whole
/// registers.
macro_rules! accesses {
    ($prefix:literal, $load:ident, $store:ident, $shape:ident) => {
        &[
            row(16, concat!($prefix, "_load_ubyte"), part!($load, $shape, 1, Part::Unsigned(8))),
            row(17, concat!($prefix, "_load_sbyte"), part!($load, $shape, 1, Part::Signed(8))),
            row(18, concat!($prefix, "_load_ushort"), part!($load, $shape, 1, Part::Unsigned(16))),
            row(19, concat!($prefix, "_load_sshort"), part!($load, $shape, 1, Part::Signed(16))),
            row(20, concat!($prefix, "_load_dword"), part!($load, $shape, 1, Part::Words(1))),
            row(21, concat!($prefix, "_load_dwordx2"), part!($load, $shape, 2, Part::Words(2))),
            row(22, concat!($prefix, "_load_dwordx3"), part!($load, $shape, 3, Part::Words(3))),
            row(23, concat!($prefix, "_load_dwordx4"), part!($load, $shape, 4, Part::Words(4))),
            row(24, concat!($prefix, "_store_byte"), part!($store, store, 1, Part::Unsigned(8))),
            row(25, concat!($prefix, "_store_byte_d16_hi"), part!($store, store, 1, Part::High(Extend::Byte))),
            row(26, concat!($prefix, "_store_short"), part!($store, store, 1, Part::Unsigned(16))),
            row(27, concat!($prefix, "_store_short_d16_hi"), part!($store, store, 1, Part::High(Extend::Short))),
            row(28, concat!($prefix, "_store_dword"), part!($store, store, 1, Part::Words(1))),
            row(29, concat!($prefix, "_store_dwordx2"), part!($store, store, 2, Part::Words(2))),
            row(30, concat!($prefix, "_store_dwordx3"), part!($store, store, 3, Part::Words(3))),
            row(31, concat!($prefix, "_store_dwordx4"), part!($store, store, 4, Part::Words(4))),
            row(32, concat!($prefix, "_load_ubyte_d16"), part!($load, load, 1, Part::Low(Extend::Byte))),
            row(33, concat!($prefix, "_load_ubyte_d16_hi"), part!($load, load, 1, Part::High(Extend::Byte))),
            row(34, concat!($prefix, "_load_sbyte_d16"), part!($load, load, 1, Part::Low(Extend::SignedByte))),
            row(35, concat!($prefix, "_load_sbyte_d16_hi"), part!($load, load, 1, Part::High(Extend::SignedByte))),
            row(36, concat!($prefix, "_load_short_d16"), part!($load, load, 1, Part::Low(Extend::Short))),
            row(37, concat!($prefix, "_load_short_d16_hi"), part!($load, load, 1, Part::High(Extend::Short))),
        ]
    };
}

macro_rules! atomic {
    ($function:ident, $size:literal, $data:literal, $operation:path) => {
        (
            Shape::Access(Access {
                result: $size / 4,
                data: $data,
                operands: 1,
                atomic: true,
                address: true,
                ..Access::NONE
            }),
            (|unit, fields| $function(unit, fields, $size, $operation)) as Execute,
        )
    };
}

/// Rows of atomic operations, with the prefix of their encoding and their function.
macro_rules! atomics {
    ($prefix:literal, $function:ident) => {
        &[
            row(64, concat!($prefix, "_atomic_swap"), atomic!($function, 4, 1, operation::swap)),
            row(65, concat!($prefix, "_atomic_cmpswap"), atomic!($function, 4, 2, operation::compare_swap)),
            row(66, concat!($prefix, "_atomic_add"), atomic!($function, 4, 1, operation::add)),
            row(67, concat!($prefix, "_atomic_sub"), atomic!($function, 4, 1, operation::sub)),
            row(68, concat!($prefix, "_atomic_smin"), atomic!($function, 4, 1, operation::signed_min)),
            row(69, concat!($prefix, "_atomic_umin"), atomic!($function, 4, 1, operation::unsigned_min)),
            row(70, concat!($prefix, "_atomic_smax"), atomic!($function, 4, 1, operation::signed_max)),
            row(71, concat!($prefix, "_atomic_umax"), atomic!($function, 4, 1, operation::unsigned_max)),
            row(72, concat!($prefix, "_atomic_and"), atomic!($function, 4, 1, operation::and)),
            row(73, concat!($prefix, "_atomic_or"), atomic!($function, 4, 1, operation::or)),
            row(74, concat!($prefix, "_atomic_xor"), atomic!($function, 4, 1, operation::xor)),
            row(75, concat!($prefix, "_atomic_inc"), atomic!($function, 4, 1, operation::increment)),
            row(76, concat!($prefix, "_atomic_dec"), atomic!($function, 4, 1, operation::decrement)),
            row(96, concat!($prefix, "_atomic_swap_x2"), atomic!($function, 8, 2, operation::swap)),
            row(97, concat!($prefix, "_atomic_cmpswap_x2"), atomic!($function, 8, 4, operation::compare_swap)),
            row(98, concat!($prefix, "_atomic_add_x2"), atomic!($function, 8, 2, operation::add)),
            row(99, concat!($prefix, "_atomic_sub_x2"), atomic!($function, 8, 2, operation::sub)),
            row(100, concat!($prefix, "_atomic_smin_x2"), atomic!($function, 8, 2, operation::signed_min)),
            row(101, concat!($prefix, "_atomic_umin_x2"), atomic!($function, 8, 2, operation::unsigned_min)),
            row(102, concat!($prefix, "_atomic_smax_x2"), atomic!($function, 8, 2, operation::signed_max)),
            row(103, concat!($prefix, "_atomic_umax_x2"), atomic!($function, 8, 2, operation::unsigned_max)),
            row(104, concat!($prefix, "_atomic_and_x2"), atomic!($function, 8, 2, operation::and)),
            row(105, concat!($prefix, "_atomic_or_x2"), atomic!($function, 8, 2, operation::or)),
            row(106, concat!($prefix, "_atomic_xor_x2"), atomic!($function, 8, 2, operation::xor)),
            row(107, concat!($prefix, "_atomic_inc_x2"), atomic!($function, 8, 2, operation::increment)),
            row(108, concat!($prefix, "_atomic_dec_x2"), atomic!($function, 8, 2, operation::decrement)),
        ]
    };
}

pub(super) static FLAT: &[Row] = accesses!("flat", load, store, load);
pub(super) static FLAT_ATOMICS: &[Row] = atomics!("flat", atomic);
pub(super) static GLOBAL: &[Row] = accesses!("global", load, store, load);
pub(super) static GLOBAL_ATOMICS: &[Row] = atomics!("global", atomic);
pub(super) static SCRATCH: &[Row] = accesses!("scratch", load, store, load);

/// The scalar offset of MUBUF and MTBUF.
fn buffer_offset(unit: &Unit<'_, '_>, fields: &Fields) -> Result<u32> {
    unit.wave.scalar(fields.sources[3], 0)
}

/// The distance of words in a buffer: those of a swizzled one may be apart, so each is placed on its own.
fn buffer_word(
    unit: &Unit<'_, '_>,
    fields: &Fields,
    descriptor: &Descriptor,
    lane: usize,
    word: u8,
    size: u32,
) -> Result<Option<u64>> {
    let offset = buffer_offset(unit, fields)?;
    let shifted = Fields { offset: fields.offset + i32::from(word) * 4, ..*fields };
    let found = place(unit.wave, &shifted, descriptor, offset, lane, size)?;
    Ok(found.inside.then_some(found.address))
}

fn refuse_unusual(fields: &Fields) -> Result<()> {
    // MTBUF has its opcode in the place of the first bit.
    let shared = if fields.encoding == super::Encoding::Mubuf { flag::BUFFER_LDS } else { 0 };
    match fields.bits & (shared | flag::BUFFER_TFE) {
        0 => Ok(()),
        _ => Err(unknown("a buffer access into LDS, or with a status")),
    }
}

fn buffer_load(unit: &mut Unit<'_, '_>, fields: &Fields, part: Part) -> Result<()> {
    refuse_unusual(fields)?;
    let descriptor = Descriptor::read(unit.wave, fields.scalar)?;
    let register = usize::from(fields.destination);
    for lane in unit.wave.active() {
        if let Part::Words(words) = part {
            // The result may be in the registers of the address: it is written at the end.
            let mut values = [0; 4];
            for (value, word) in values.iter_mut().zip(0..words) {
                let address = buffer_word(unit, fields, &descriptor, lane, word, 4)?;
                *value = address.map_or(Ok(0), |address| unit.bus.load(address, 4))? as u32;
            }
            for (value, word) in values.into_iter().zip(0..usize::from(words)) {
                unit.wave.vector_mut(register + word)?[lane] = value;
            }
        } else {
            let address = buffer_word(unit, fields, &descriptor, lane, 0, part.bytes())?;
            let value = address.map_or(Ok(0), |address| unit.bus.load(address, part.bytes().into()))? as u32;
            let target = &mut unit.wave.vector_mut(register)?[lane];
            *target = loaded(part, value, *target);
        }
    }
    Ok(())
}

fn buffer_store(unit: &mut Unit<'_, '_>, fields: &Fields, part: Part) -> Result<()> {
    refuse_unusual(fields)?;
    let descriptor = Descriptor::read(unit.wave, fields.scalar)?;
    let register = usize::from(fields.destination);
    for lane in unit.wave.active() {
        if let Part::Words(words) = part {
            for word in 0..words {
                if let Some(address) = buffer_word(unit, fields, &descriptor, lane, word, 4)? {
                    let value = unit.wave.vector(register + usize::from(word))?[lane];
                    unit.bus.store(address, 4, value.into())?;
                }
            }
        } else if let Some(address) = buffer_word(unit, fields, &descriptor, lane, 0, part.bytes())? {
            let value = stored(part, unit.wave.vector(register)?[lane]);
            unit.bus.store(address, part.bytes().into(), value.into())?;
        }
    }
    Ok(())
}

fn buffer_atomic(unit: &mut Unit<'_, '_>, fields: &Fields, size: u64, operation: Operation) -> Result<()> {
    refuse_unusual(fields)?;
    let descriptor = Descriptor::read(unit.wave, fields.scalar)?;
    let register = usize::from(fields.destination);
    for lane in unit.wave.active() {
        let value = data_word(unit, register, size, lane)?;
        let compare = data_word(unit, register + (size / 4) as usize, size, lane).unwrap_or(0);
        let address = buffer_word(unit, fields, &descriptor, lane, 0, size as u32)?;
        let old = address
            .map_or(Ok(0), |address| unit.bus.atomic(address, size, |old| operation(old, value, compare, size)))?;
        if fields.bits & flag::BUFFER_GLC != 0 {
            set_data_word(unit, register, size, lane, old)?;
        }
    }
    Ok(())
}

/// The format of an element: the instruction's, or the descriptor's.
fn element(fields: &Fields, descriptor: &Descriptor) -> Format {
    match fields.encoding {
        super::Encoding::Mtbuf => Format::of_buffer(fields.format & 15, fields.format >> 4),
        _ => descriptor.format,
    }
}

/// Chooses a component: 0, 1, or one of the element's.
pub(crate) fn selected(select: u8, components: [u32; 4], one: u32) -> u32 {
    match select {
        1 => one,
        4..=7 => components[usize::from(select) - 4],
        _ => 0,
    }
}

fn format_load(unit: &mut Unit<'_, '_>, fields: &Fields, count: usize) -> Result<()> {
    refuse_unusual(fields)?;
    let descriptor = Descriptor::read(unit.wave, fields.scalar)?;
    let format = element(fields, &descriptor);
    let size = format.size()?;
    for lane in unit.wave.active() {
        let components = match buffer_word(unit, fields, &descriptor, lane, 0, size)? {
            Some(address) => {
                let found = format.unpack(load_element(unit, address, size)?)?;
                descriptor.selects.map(|select| selected(select, found, format.one()))
            }
            None => [0; 4],
        };
        for (place, component) in components.into_iter().enumerate().take(count) {
            unit.wave.vector_mut(usize::from(fields.destination) + place)?[lane] = component;
        }
    }
    Ok(())
}

fn format_store(unit: &mut Unit<'_, '_>, fields: &Fields, count: usize) -> Result<()> {
    refuse_unusual(fields)?;
    let descriptor = Descriptor::read(unit.wave, fields.scalar)?;
    let format = element(fields, &descriptor);
    let size = format.size()?;
    for lane in unit.wave.active() {
        let mut components = [0; 4];
        for (place, component) in components.iter_mut().enumerate().take(count) {
            *component = unit.wave.vector(usize::from(fields.destination) + place)?[lane];
        }
        if let Some(address) = buffer_word(unit, fields, &descriptor, lane, 0, size)? {
            store_element(unit, address, size, format.pack(components)?)?;
        }
    }
    Ok(())
}

/// Reads an element of up to 16 bytes.
pub(crate) fn load_element(unit: &mut Unit<'_, '_>, address: u64, size: u32) -> Result<[u32; 4]> {
    let mut words = [0; 4];
    for (place, word) in words.iter_mut().enumerate().take(size.div_ceil(4) as usize) {
        let at = place as u64 * 4;
        *word = unit.bus.load(address + at, (u64::from(size) - at).min(4))? as u32;
    }
    Ok(words)
}

pub(crate) fn store_element(unit: &mut Unit<'_, '_>, address: u64, size: u32, words: [u32; 4]) -> Result<()> {
    for (place, word) in words.into_iter().enumerate().take(size.div_ceil(4) as usize) {
        let at = place as u64 * 4;
        unit.bus.store(address + at, (u64::from(size) - at).min(4), word.into())?;
    }
    Ok(())
}

macro_rules! typed {
    ($function:ident, $shape:ident, $count:literal) => {
        (Access::$shape($count), (|unit, fields| $function(unit, fields, $count)) as Execute)
    };
}

/// Rows of accesses by formats, with the prefix of their encoding and the shape of the first one.
macro_rules! formats {
    ($prefix:literal, $first:ident) => {
        &[
            row(0, concat!($prefix, "_load_format_x"), typed!(format_load, $first, 1)),
            row(1, concat!($prefix, "_load_format_xy"), typed!(format_load, load, 2)),
            row(2, concat!($prefix, "_load_format_xyz"), typed!(format_load, load, 3)),
            row(3, concat!($prefix, "_load_format_xyzw"), typed!(format_load, load, 4)),
            row(4, concat!($prefix, "_store_format_x"), typed!(format_store, store, 1)),
            row(5, concat!($prefix, "_store_format_xy"), typed!(format_store, store, 2)),
            row(6, concat!($prefix, "_store_format_xyz"), typed!(format_store, store, 3)),
            row(7, concat!($prefix, "_store_format_xyzw"), typed!(format_store, store, 4)),
        ]
    };
}

pub(super) static MUBUF_FORMATS: &[Row] = formats!("buffer", load_anywhere);
pub(super) static MUBUF: &[Row] = accesses!("buffer", buffer_load, buffer_store, load_anywhere);
pub(super) static MUBUF_CACHES: &[Row] = &[row(62, "buffer_wbinvl1", CACHE), row(63, "buffer_wbinvl1_vol", CACHE)];
pub(super) static MUBUF_ATOMICS: &[Row] = atomics!("buffer", buffer_atomic);
pub(super) static MTBUF: &[Row] = formats!("tbuffer", load);
