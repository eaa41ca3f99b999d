//! Operations of vector instructions on all lanes.
//!
//! Every lane is computed, and the active ones are written: that is faster than a choice for each.

use std::array::from_fn;

use crate::decode::{Dpp, Fields, Modifiers, Route, Sdwa};
use crate::table::Encoding;
use crate::value::{Integer, Kind, Pair, Value};
use crate::wave::{LANES, Lanes, Wave, code};
use crate::{Result, unknown};

/// Values of one operand.
pub(crate) type Values<T> = [T; LANES];

/// Reads a source.
pub(crate) fn read<T: Value>(wave: &Wave, fields: &Fields, index: usize) -> Result<Values<T>> {
    let source = fields.sources[index];
    let direct = fields.route == Route::Direct && fields.modifiers == Modifiers::NONE;
    let mut values: Values<T> = match source.checked_sub(code::VECTOR) {
        Some(number) => {
            let number = usize::from(number);
            let low = wave.vector(number)?;
            if !direct {
                routed(wave, fields, index, low, number)?
            } else if T::KIND.words() == 2 {
                let high = wave.vector(number + 1)?;
                from_fn(|lane| T::from_words(low[lane], high[lane]))
            } else {
                from_fn(|lane| T::from_words(low[lane], 0))
            }
        }
        None => {
            let (low, high) = wave.scalar_words(source, fields.literal, T::KIND)?;
            if direct { [T::from_words(low, high); LANES] } else { routed_scalar(fields, index, low, high) }
        }
    };
    if !direct {
        let Modifiers { absolute, negate, .. } = fields.modifiers;
        if fields.encoding != Encoding::Vop3p && (absolute | negate) >> index & 1 != 0 {
            let has = |bits: u8| bits >> index & 1 != 0;
            values = values.map(|value| value.modified(has(absolute), has(negate)));
        }
    }
    if wave.mode.flushes(T::KIND) {
        values = values.map(T::flushed);
    }
    Ok(values)
}

fn routed<T: Value>(wave: &Wave, fields: &Fields, index: usize, low: &Lanes, number: usize) -> Result<Values<T>> {
    let mut low = *low;
    let mut high = if T::KIND.words() == 2 { *wave.vector(number + 1)? } else { [0; LANES] };
    match fields.route {
        Route::Sdwa(sdwa) => low = low.map(|word| selected(&sdwa, index, word)),
        Route::Dpp(dpp) if index == 0 => {
            let from = |register: &Lanes| {
                from_fn(|lane| {
                    dpp_source(&dpp, lane).filter(|from| reads(wave, *from)).map_or(0, |from| register[from])
                })
            };
            (low, high) = (from(&low), from(&high));
        }
        Route::Direct | Route::Dpp(_) => {}
    }
    if T::KIND.is_short() && fields.modifiers.select >> index & 1 != 0 {
        low = low.map(|word| word >> 16);
    }
    Ok(from_fn(|lane| T::from_words(low[lane], high[lane])))
}

fn routed_scalar<T: Value>(fields: &Fields, index: usize, low: u32, high: u32) -> Values<T> {
    let low = match fields.route {
        Route::Sdwa(sdwa) => selected(&sdwa, index, low),
        _ if T::KIND.is_short() && fields.modifiers.select >> index & 1 != 0 => low >> 16,
        _ => low,
    };
    [T::from_words(low, high); LANES]
}

/// `true` if DPP may read a lane: it is active.
fn reads(wave: &Wave, lane: usize) -> bool {
    wave.exec() >> lane & 1 != 0
}

/// The part of a word that SDWA selects.
fn selected(sdwa: &Sdwa, index: usize, word: u32) -> u32 {
    let signed = sdwa.signed[index.min(1)];
    match sdwa.sources[index.min(1)] {
        byte @ 0..4 => {
            let byte = (word >> (8 * byte)) as u8;
            if signed { i32::from(byte.cast_signed()).cast_unsigned() } else { byte.into() }
        }
        half @ 4..6 => {
            let half = (word >> (16 * (half - 4))) as u16;
            if signed { i32::from(half.cast_signed()).cast_unsigned() } else { half.into() }
        }
        _ => word,
    }
}

/// The lane that DPP reads for a lane. `None`: there is none.
fn dpp_source(dpp: &Dpp, lane: usize) -> Option<usize> {
    let (row, place) = (lane & !15, lane & 15);
    let shift = usize::from(dpp.control & 15);
    match dpp.control {
        0..=0xff => Some(lane & !3 | usize::from(dpp.control >> (2 * (lane & 3)) & 3)),
        0x101..=0x10f => (place + shift < 16).then_some(lane + shift),
        0x111..=0x11f => (place >= shift).then(|| lane - shift),
        0x121..=0x12f => Some(row | (place + 16 - shift) & 15),
        0x130 => (lane < 63).then_some(lane + 1),
        0x134 => Some((lane + 1) & 63),
        0x138 => lane.checked_sub(1),
        0x13c => Some((lane + 63) & 63),
        0x140 => Some(row | (15 - place)),
        0x141 => Some(lane & !7 | (7 - (lane & 7))),
        // The last lane of the row before, and lane 31 for the upper half.
        0x142 => row.checked_sub(1),
        _ => (lane >= 32).then_some(31),
    }
}

/// The lanes that an instruction writes.
pub(crate) fn written(wave: &Wave, fields: &Fields) -> u64 {
    let exec = wave.exec();
    let Route::Dpp(dpp) = fields.route else { return exec };
    let writes = |lane: &usize| {
        let enabled = dpp.rows >> (lane >> 4) & 1 != 0 && dpp.banks >> (lane >> 2 & 3) & 1 != 0;
        enabled && (dpp.bound || dpp_source(&dpp, *lane).is_some_and(|from| reads(wave, from)))
    };
    (0..LANES).filter(writes).fold(0, |mask, lane| mask | 1 << lane) & exec
}

/// Writes results to the destination, after the output modifiers.
pub(crate) fn write<T: Value>(wave: &mut Wave, fields: &Fields, mut values: Values<T>) -> Result<()> {
    let Modifiers { clamp, scale, .. } = fields.modifiers;
    if clamp || scale != 0 {
        let clamps_nan = wave.mode.clamps_nan();
        for value in &mut values {
            *value = value.finished(scale, clamp, clamps_nan).ok_or(unknown("an output modifier of integers"))?;
        }
    }
    if wave.mode.flushes(T::KIND) {
        values = values.map(T::flushed);
    }
    let number = usize::from(fields.destination);
    if fields.route != Route::Direct || fields.modifiers.select & 8 != 0 || keeps_high(fields, T::KIND) {
        return write_part(wave, fields, &values, number);
    }
    store(wave, number, &values)
}

fn store<T: Value>(wave: &mut Wave, number: usize, values: &Values<T>) -> Result<()> {
    wave.set_active(number, |lane| values[lane].low())?;
    if T::KIND.words() == 2 {
        wave.set_active(number + 1, |lane| values[lane].high())?;
    }
    Ok(())
}

/// `true` if neither operands nor the result of an instruction are changed on their way.
fn is_plain(wave: &Wave, fields: &Fields, kinds: &[Kind], result: Kind) -> bool {
    fields.route == Route::Direct
        && fields.modifiers == Modifiers::NONE
        && !kinds.iter().any(|kind| wave.mode.flushes(*kind))
        && !wave.mode.flushes(result)
        && !keeps_high(fields, result)
}

/// The words of an operand that is not changed on its way: of the registers themselves, or copies of a scalar.
struct Plain<'a> {
    low: &'a Lanes,
    high: &'a Lanes,
}

impl Plain<'_> {
    fn get<T: Value>(&self, lane: usize) -> T {
        T::from_words(self.low[lane], if T::KIND.words() == 2 { self.high[lane] } else { 0 })
    }
}

fn plain<'a, T: Value>(
    wave: &'a Wave,
    fields: &Fields,
    index: usize,
    copies: &'a mut (Option<Lanes>, Option<Lanes>),
) -> Result<Plain<'a>> {
    let source = fields.sources[index];
    if let Some(number) = source.checked_sub(code::VECTOR) {
        let number = usize::from(number);
        let low = wave.vector(number)?;
        return Ok(Plain { low, high: if T::KIND.words() == 2 { wave.vector(number + 1)? } else { low } });
    }
    let (low, high) = wave.scalar_words(source, fields.literal, T::KIND)?;
    let low = &*copies.0.insert([low; LANES]);
    Ok(Plain { low, high: if T::KIND.words() == 2 { copies.1.insert([high; LANES]) } else { low } })
}

/// `true` if a 16-bit result leaves the other half of the register as it was: of those instructions that can select a
/// half.
fn keeps_high(fields: &Fields, kind: Kind) -> bool {
    kind.is_short() && fields.encoding == Encoding::Vop3 && fields.opcode >= 0x1f4
}

/// Writes parts of registers, or lanes that DPP enables.
fn write_part<T: Value>(wave: &mut Wave, fields: &Fields, values: &Values<T>, number: usize) -> Result<()> {
    let lanes = written(wave, fields);
    let select_high = fields.modifiers.select & 8 != 0;
    let keeps = keeps_high(fields, T::KIND);
    let register = wave.vector_mut(number)?;
    for lane in (0..LANES).filter(|lane| lanes >> lane & 1 != 0) {
        let (old, new) = (register[lane], values[lane].low());
        register[lane] = match fields.route {
            Route::Sdwa(sdwa) => merged(&sdwa, old, new),
            _ if select_high => old & 0xffff | new << 16,
            _ if keeps => old & 0xffff_0000 | new & 0xffff,
            _ => new,
        };
    }
    if T::KIND.words() == 2 {
        let register = wave.vector_mut(number + 1)?;
        for lane in (0..LANES).filter(|lane| lanes >> lane & 1 != 0) {
            register[lane] = values[lane].high();
        }
    }
    Ok(())
}

/// A register after SDWA wrote a part of it.
fn merged(sdwa: &Sdwa, old: u32, new: u32) -> u32 {
    let (low, width) = match sdwa.destination {
        byte @ 0..4 => (u32::from(byte) * 8, 8),
        half @ 4..6 => (u32::from(half - 4) * 16, 16),
        _ => return new,
    };
    let field = ((1_u32 << width) - 1) << low;
    let part = new << low & field;
    match sdwa.unused {
        0 => part,
        // The sign above, zeroes below.
        1 => {
            let sign = if new >> (width - 1) & 1 != 0 { u32::MAX.checked_shl(low + width).unwrap_or(0) } else { 0 };
            part | sign
        }
        _ => old & !field | part,
    }
}

pub(crate) fn unary<A: Value, R: Value>(wave: &mut Wave, fields: &Fields, function: impl Fn(A) -> R) -> Result<()> {
    if is_plain(wave, fields, &[A::KIND], R::KIND) {
        let mut copies = (None, None);
        let a = plain::<A>(wave, fields, 0, &mut copies)?;
        let results = from_fn::<R, LANES, _>(|lane| function(a.get(lane)));
        return store(wave, fields.destination.into(), &results);
    }
    let a = read::<A>(wave, fields, 0)?;
    write(wave, fields, from_fn::<R, LANES, _>(|lane| function(a[lane])))
}

pub(crate) fn binary<A: Value, B: Value, R: Value>(
    wave: &mut Wave,
    fields: &Fields,
    function: impl Fn(A, B) -> R,
) -> Result<()> {
    if is_plain(wave, fields, &[A::KIND, B::KIND], R::KIND) {
        let mut copies = [(None, None), (None, None)];
        let [first, second] = &mut copies;
        let (a, b) = (plain::<A>(wave, fields, 0, first)?, plain::<B>(wave, fields, 1, second)?);
        let results = from_fn::<R, LANES, _>(|lane| function(a.get(lane), b.get(lane)));
        return store(wave, fields.destination.into(), &results);
    }
    let (a, b) = (read::<A>(wave, fields, 0)?, read::<B>(wave, fields, 1)?);
    write(wave, fields, from_fn::<R, LANES, _>(|lane| function(a[lane], b[lane])))
}

pub(crate) fn ternary<A: Value, B: Value, C: Value, R: Value>(
    wave: &mut Wave,
    fields: &Fields,
    function: impl Fn(A, B, C) -> R,
) -> Result<()> {
    if is_plain(wave, fields, &[A::KIND, B::KIND, C::KIND], R::KIND) {
        let mut copies = [(None, None), (None, None), (None, None)];
        let [first, second, third] = &mut copies;
        let (a, b) = (plain::<A>(wave, fields, 0, first)?, plain::<B>(wave, fields, 1, second)?);
        let c = plain::<C>(wave, fields, 2, third)?;
        let results = from_fn::<R, LANES, _>(|lane| function(a.get(lane), b.get(lane), c.get(lane)));
        return store(wave, fields.destination.into(), &results);
    }
    let (a, b) = (read::<A>(wave, fields, 0)?, read::<B>(wave, fields, 1)?);
    let c = read::<C>(wave, fields, 2)?;
    write(wave, fields, from_fn::<R, LANES, _>(|lane| function(a[lane], b[lane], c[lane])))
}

/// The fields without the clamp, which saturated the results already.
pub(crate) fn wrapping(fields: &Fields) -> Fields {
    Fields { modifiers: Modifiers { clamp: false, ..fields.modifiers }, ..*fields }
}

/// As [`binary`], for a function whose exact result wraps, or saturates with the clamp.
pub(crate) fn exact_binary<A: Value, B: Value, R: Integer>(
    wave: &mut Wave,
    fields: &Fields,
    function: impl Fn(A, B) -> i64,
) -> Result<()> {
    if fields.modifiers.clamp {
        binary(wave, &wrapping(fields), |a, b| R::saturated(function(a, b)))
    } else {
        binary(wave, fields, |a, b| R::wrapped(function(a, b)))
    }
}

/// As [`ternary`], for a function whose exact result wraps, or saturates with the clamp.
pub(crate) fn exact_ternary<A: Value, B: Value, C: Value, R: Integer>(
    wave: &mut Wave,
    fields: &Fields,
    function: impl Fn(A, B, C) -> i64,
) -> Result<()> {
    if fields.modifiers.clamp {
        ternary(wave, &wrapping(fields), |a, b, c| R::saturated(function(a, b, c)))
    } else {
        ternary(wave, fields, |a, b, c| R::wrapped(function(a, b, c)))
    }
}

/// As [`ternary`], with the old destination as the third operand.
pub(crate) fn accumulate<A: Value, B: Value, R: Value>(
    wave: &mut Wave,
    fields: &Fields,
    function: impl Fn(A, B, R) -> R,
) -> Result<()> {
    if is_plain(wave, fields, &[A::KIND, B::KIND], R::KIND) {
        let mut copies = [(None, None), (None, None)];
        let [first, second] = &mut copies;
        let (a, b) = (plain::<A>(wave, fields, 0, first)?, plain::<B>(wave, fields, 1, second)?);
        let old = wave.vector(fields.destination.into())?;
        let results = from_fn::<R, LANES, _>(|lane| function(a.get(lane), b.get(lane), R::from_words(old[lane], 0)));
        return store(wave, fields.destination.into(), &results);
    }
    let (a, b) = (read::<A>(wave, fields, 0)?, read::<B>(wave, fields, 1)?);
    let direct = Fields { sources: [code::VECTOR + fields.destination; 4], ..Fields::default() };
    let old = read::<R>(wave, &direct, 0)?;
    write(wave, fields, from_fn::<R, LANES, _>(|lane| function(a[lane], b[lane], old[lane])))
}

/// Two operands and the literal: the literal is the second factor (`madmk`) or the addend (`madak`).
pub(crate) fn with_literal<T: Value>(wave: &mut Wave, fields: &Fields, function: impl Fn(T, T, T) -> T) -> Result<()> {
    let literal = T::from_words(fields.literal, 0);
    let (a, b) = (read::<T>(wave, fields, 0)?, read::<T>(wave, fields, 1)?);
    write(wave, fields, from_fn::<T, LANES, _>(|lane| function(a[lane], b[lane], literal)))
}

/// An addition or subtraction with a carry: the function gets both operands and the carry in, and returns the result and
/// the carry out. With the clamp, a result with a carry is the limit.
pub(crate) fn carry(
    wave: &mut Wave,
    fields: &Fields,
    takes: bool,
    limit: u32,
    function: impl Fn(u32, u32, bool) -> (u32, bool),
) -> Result<()> {
    if is_plain(wave, fields, &[], Kind::Int32) {
        let carries = if takes { wave.scalar::<u64>(fields.sources[2], 0)? } else { 0 };
        let mut copies = [(None, None), (None, None)];
        let [first, second] = &mut copies;
        let (a, b) = (plain::<u32>(wave, fields, 0, first)?, plain::<u32>(wave, fields, 1, second)?);
        let pair = |lane: usize, carried: bool| function(a.low[lane], b.low[lane], carried);
        let carried = |lane: usize| carries >> lane & 1 != 0;
        let (results, out) = if takes {
            (
                from_fn::<u32, LANES, _>(|lane| pair(lane, carried(lane)).0),
                packed_mask(|lane| pair(lane, carried(lane)).1),
            )
        } else {
            (from_fn(|lane| pair(lane, false).0), packed_mask(|lane| pair(lane, false).1))
        };
        let out = out & wave.exec();
        store(wave, fields.destination.into(), &results)?;
        wave.set_pair(fields.scalar, out);
        return Ok(());
    }
    let (a, b) = (read::<u32>(wave, fields, 0)?, read::<u32>(wave, fields, 1)?);
    let carries = if takes { wave.scalar::<u64>(fields.sources[2], 0)? } else { 0 };
    let lanes = written(wave, fields);
    let saturates = fields.modifiers.clamp;
    let mut out = 0;
    let results = from_fn(|lane| {
        let (result, carried) = function(a[lane], b[lane], carries >> lane & 1 != 0);
        out |= u64::from(carried) << lane;
        if saturates && carried { limit } else { result }
    });
    write::<u32>(wave, &wrapping(fields), results)?;
    wave.set_pair(fields.scalar, out & lanes);
    Ok(())
}

/// Selects one of two operands by a mask.
pub(crate) fn choose(wave: &mut Wave, fields: &Fields) -> Result<()> {
    let mask = wave.scalar::<u64>(fields.sources[2], 0)?;
    if is_plain(wave, fields, &[], Kind::Int32) {
        let mut copies = [(None, None), (None, None)];
        let [first, second] = &mut copies;
        let (a, b) = (plain::<u32>(wave, fields, 0, first)?, plain::<u32>(wave, fields, 1, second)?);
        let chosen = from_fn::<u32, LANES, _>(|lane| {
            let all = 0_u32.wrapping_sub((mask >> lane & 1) as u32);
            b.low[lane] & all | a.low[lane] & !all
        });
        return store(wave, fields.destination.into(), &chosen);
    }
    // The modifiers change signs only: denormal numbers stay.
    let Modifiers { absolute, negate, .. } = fields.modifiers;
    let sign = |index: usize, word: u32| {
        let word = if absolute >> index & 1 != 0 { word & 0x7fff_ffff } else { word };
        if negate >> index & 1 != 0 { word ^ 0x8000_0000 } else { word }
    };
    let (a, b) = (read::<u32>(wave, fields, 0)?, read::<u32>(wave, fields, 1)?);
    let chosen = |lane: usize| if mask >> lane & 1 != 0 { sign(1, b[lane]) } else { sign(0, a[lane]) };
    write(wave, fields, from_fn::<u32, LANES, _>(chosen))
}

/// The lanes for which a condition holds.
fn packed_mask(condition: impl Fn(usize) -> bool) -> u64 {
    // Bytes first: the conditions are computed side by side.
    let bytes = from_fn::<u8, LANES, _>(|lane| condition(lane).into());
    bytes.chunks_exact(8).enumerate().fold(0, |mask, (place, chunk)| {
        let eight = chunk.iter().rev().fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
        // The lowest bits of eight bytes, beside each other in the highest byte.
        mask | (eight.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * place)
    })
}

/// A comparison: the mask of active lanes for which it holds. The opcodes with bit 4 set write EXEC, too.
pub(crate) fn compare<A: Value, B: Value>(
    wave: &mut Wave,
    fields: &Fields,
    function: impl Fn(A, B) -> bool,
) -> Result<()> {
    let mask = if is_plain(wave, fields, &[A::KIND, B::KIND], Kind::Int32) {
        let mut copies = [(None, None), (None, None)];
        let [first, second] = &mut copies;
        let (a, b) = (plain::<A>(wave, fields, 0, first)?, plain::<B>(wave, fields, 1, second)?);
        packed_mask(|lane| function(a.get(lane), b.get(lane)))
    } else {
        let (a, b) = (read::<A>(wave, fields, 0)?, read::<B>(wave, fields, 1)?);
        packed_mask(|lane| function(a[lane], b[lane]))
    };
    let mask = mask & written(wave, fields);
    wave.set_pair(fields.scalar, mask);
    if writes_exec(fields.opcode) {
        wave.set_pair(code::EXEC, mask);
    }
    Ok(())
}

/// `true` for the comparisons `v_cmpx_...`: those of classes have odd opcodes, the others bit 4 set.
fn writes_exec(opcode: u16) -> bool {
    if opcode < 0x20 { opcode & 1 != 0 } else { opcode & 0x10 != 0 }
}

/// The halves of a packed instruction's source, after their modifiers.
fn halves<T: Value>(wave: &Wave, fields: &Fields, index: usize) -> Result<Values<Pair<T>>>
where
    Pair<T>: Value,
{
    let Modifiers { absolute, negate, select, select_high, .. } = fields.modifiers;
    let has = |bits: u8| bits >> index & 1 != 0;
    let values = read::<Pair<T>>(wave, fields, index)?;
    Ok(values.map(|Pair(low, high)| {
        let half = |high_half: bool| if high_half { high } else { low };
        Pair(half(has(select)).modified(false, has(negate)), half(has(select_high)).modified(false, has(absolute)))
    }))
}

pub(crate) fn packed_binary<T: Value>(wave: &mut Wave, fields: &Fields, function: impl Fn(T, T) -> T) -> Result<()>
where
    Pair<T>: Value,
{
    let (a, b) = (halves::<T>(wave, fields, 0)?, halves::<T>(wave, fields, 1)?);
    write(wave, fields, from_fn::<_, LANES, _>(|at| Pair(function(a[at].0, b[at].0), function(a[at].1, b[at].1))))
}

pub(crate) fn packed_ternary<T: Value>(wave: &mut Wave, fields: &Fields, function: impl Fn(T, T, T) -> T) -> Result<()>
where
    Pair<T>: Value,
{
    let (a, b) = (halves::<T>(wave, fields, 0)?, halves::<T>(wave, fields, 1)?);
    let c = halves::<T>(wave, fields, 2)?;
    write(
        wave,
        fields,
        from_fn::<_, LANES, _>(|at| Pair(function(a[at].0, b[at].0, c[at].0), function(a[at].1, b[at].1, c[at].1))),
    )
}
