//! Parts of registers by SDWA, values of other lanes by DPP, and denormal numbers.

use half::f16;

use super::generate::{Random, SINGLES};
use super::machine::{Machine, assembled};
use crate::decode::decode;
use crate::wave::{LANES, Mode, code};

const PARTS: [&str; 7] = ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"];

fn part(word: u32, select: usize, signed: bool) -> u32 {
    let (at, width) = place(select);
    let value = (u64::from(word) >> at & ((1 << width) - 1)) as i64;
    (if signed && value >> (width - 1) != 0 { value - (1 << width) } else { value }) as u32
}

/// The first bit and the number of bits of a part.
const fn place(select: usize) -> (usize, usize) {
    match select {
        0..4 => (8 * select, 8),
        4..6 => (16 * (select - 4), 16),
        _ => (0, 32),
    }
}

/// All selections of the destination, and all of each source.
pub(super) fn selections() {
    let unused = ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"];
    let mut all = Vec::new();
    for target in 0..7 {
        for kept in 0..3 {
            for source in 0..7 {
                all.push((target, kept, source, (source + target) % 7, (source + kept) % 2 == 0));
            }
        }
    }
    let lines = all.iter().map(|(target, kept, a, b, signed)| {
        let (open, close) = if *signed { ("sext(", ")") } else { ("", "") };
        format!(
            "v_add_u32_sdwa v20, {open}v10{close}, v12 dst_sel:{} dst_unused:{} src0_sel:{} src1_sel:{}\n",
            PARTS[*target], unused[*kept], PARTS[*a], PARTS[*b]
        )
    });
    let instructions = assembled(&lines.collect::<String>());
    let mut random = Random::new(21);
    for ((target, kept, a, b, signed), instruction) in all.into_iter().zip(&instructions) {
        let mut machine = Machine::new();
        let before: [[u32; 3]; LANES] = std::array::from_fn(|_| std::array::from_fn(|_| random.word() as u32));
        for (place, register) in [10, 12, 20].into_iter().enumerate() {
            machine.set_word(register, |lane| before[lane][place]);
        }
        let exec = random.next();
        machine.wave.set_pair(code::EXEC, exec);
        machine.execute(instruction).unwrap();
        for lane in 0..LANES {
            let [first, second, old] = before[lane];
            let sum = part(first, a, signed).wrapping_add(part(second, b, false));
            let (at, width) = place(target);
            let field = (((1_u64 << width) - 1) << at) as u32;
            let new = ((u64::from(sum) << at) as u32) & field;
            let sign = sum >> (width - 1) & 1 != 0;
            let above = (u64::from(u32::MAX) << (at + width)) as u32;
            let expected = match kept {
                _ if exec >> lane & 1 == 0 => old,
                0 => new,
                1 if sign => new | above,
                1 => new,
                _ => old & !field | new,
            };
            assert_eq!(machine.lanes(20)[lane], expected, "{target} {kept} {a} {b} {signed}: {:x?}", before[lane]);
        }
    }
}

/// Modifiers, comparisons, carries and accumulation with SDWA.
pub(super) fn parts_of_other_instructions() {
    let mut machine = Machine::new();
    machine.set_word(10, |lane| 0xc000_3c00 | (lane as u32) << 20);
    machine.set_word(12, |lane| 0x4000_4400 + lane as u32);
    machine.set_word(20, |_| 0xaaaa_5555);
    machine.run(
        "v_add_f16_sdwa v20, -v10, |v12| dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE src0_sel:WORD_1 src1_sel:WORD_0",
    );
    for lane in 0..LANES {
        let half = |word: u32| f16::from_bits(word as u16).to_f32();
        let sum = f16::from_f32(-half(machine.lanes(10)[lane] >> 16) + half(machine.lanes(12)[lane]));
        assert_eq!(machine.lanes(20)[lane], 0x5555 | u32::from(sum.to_bits()) << 16, "{lane}");
    }
    machine.run("v_cmp_lt_u32_sdwa s[40:41], v10, v12 src0_sel:BYTE_3 src1_sel:BYTE_0");
    let expected = (0..LANES).filter(|lane| machine.lanes(10)[*lane] >> 24 < machine.lanes(12)[*lane] & 0xff);
    assert_eq!(machine.wave.pair(40), expected.fold(0, |mask, lane| mask | 1 << lane));
    machine.set_word(20, |_| 0x1234);
    machine.run("v_mov_b32_sdwa v20, sext(v10) dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1");
    assert_eq!(machine.lanes(20)[0], 0xffff_c000);
    machine.wave.scalars[5] = 0x8001_00ff;
    machine.run("v_or_b32_sdwa v20, s5, v12 dst_sel:WORD_0 dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_0");
    assert_eq!(machine.lanes(20)[3], 0x8001 | (0x4403 & 0xff));
}

/// All controls of DPP, by their definition, with lanes that are inactive.
pub(super) fn other_lanes() {
    type From = fn(usize) -> Option<usize>;
    const QUAD: [usize; 4] = [2, 0, 3, 3];
    let controls: [(&str, From); 14] = [
        ("quad_perm:[2,0,3,3]", |lane| Some(lane - lane % 4 + QUAD[lane % 4])),
        ("row_shl:1", |lane| (lane % 16 < 15).then_some(lane + 1)),
        ("row_shl:15", |lane| (lane % 16 == 0).then_some(lane + 15)),
        ("row_shr:1", |lane| (lane % 16 > 0).then(|| lane - 1)),
        ("row_shr:15", |lane| (lane % 16 == 15).then(|| lane - 15)),
        ("row_ror:3", |lane| Some(lane / 16 * 16 + (lane + 13) % 16)),
        ("wave_shl:1", |lane| (lane < 63).then_some(lane + 1)),
        ("wave_rol:1", |lane| Some((lane + 1) % 64)),
        ("wave_shr:1", |lane| lane.checked_sub(1)),
        ("wave_ror:1", |lane| Some((lane + 63) % 64)),
        ("row_mirror", |lane| Some(lane / 16 * 16 + 15 - lane % 16)),
        ("row_half_mirror", |lane| Some(lane / 8 * 8 + 7 - lane % 8)),
        ("row_bcast:15", |lane| (lane >= 16).then(|| lane / 16 * 16 - 1)),
        ("row_bcast:31", |lane| (lane >= 32).then_some(31)),
    ];
    let masks = [(15, 15, false), (15, 15, true), (5, 15, false), (15, 6, true), (10, 9, false)];
    let mut lines = String::new();
    for (control, _) in controls {
        for (rows, banks, bound) in masks {
            let bound = if bound { " bound_ctrl:0" } else { "" };
            lines.push_str(&format!(
                "v_sub_f32_dpp v20, v10, -|v12| {control} row_mask:{rows} bank_mask:{banks}{bound}\n"
            ));
        }
    }
    let instructions = assembled(&lines);
    let mut random = Random::new(23);
    for ((place, line), instruction) in lines.lines().enumerate().zip(&instructions) {
        let (from, (rows, banks, bound)) = (controls[place / masks.len()].1, masks[place % masks.len()]);
        for exec in [u64::MAX, random.next()] {
            let mut machine = Machine::new();
            machine.set_word(10, |lane| (lane as f32).to_bits());
            machine.set_word(12, |lane| (lane as f32 * 100.0).to_bits());
            machine.set_word(20, |_| 7);
            machine.wave.set_pair(code::EXEC, exec);
            machine.execute(instruction).unwrap();
            for lane in 0..LANES {
                let active = |lane: usize| exec >> lane & 1 != 0;
                let source = from(lane).filter(|from| active(*from));
                let enabled = active(lane) && rows >> (lane / 16) & 1 != 0 && banks >> (lane / 4 % 4) & 1 != 0;
                let value = source.map_or(0.0, |from| from as f32);
                let result = (value + lane as f32 * 100.0).to_bits();
                let expected = if enabled && (bound || source.is_some()) { result } else { 7 };
                assert_eq!(machine.lanes(20)[lane], expected, "{line}, lane {lane}, EXEC {exec:x}");
            }
        }
    }
    let mut machine = Machine::new();
    machine.set_word(10, |lane| lane as u32);
    machine.set_word(12, |_| 10);
    machine.set_word(20, |_| 5);
    machine.run("v_mac_f32_dpp v20, v10, v12 row_shr:1 row_mask:0xf bank_mask:0xf\nv_cvt_f32_u32_dpp v21, v10 row_shl:1 row_mask:0xf bank_mask:0xf");
    assert_eq!((machine.lanes(21)[15], machine.lanes(21)[14]), (0, 15.0_f32.to_bits()));
}

/// A comparison of lanes of a quad in words of Mesa's compiler: LLVM's assembler lacks it.
pub(super) fn comparisons_of_other_lanes() {
    let instruction = decode([0x7d84_34fa, 0xff08_b113]).unwrap();
    assert_eq!(
        instruction.to_string(),
        "v_cmp_eq_i32_dpp vcc, v19, v26 quad_perm:[1,0,3,2] row_mask:0xf bank_mask:0xf bound_ctrl:1"
    );
    let mut machine = Machine::new();
    machine.set_word(19, |lane| lane as u32 % 8);
    machine.set_word(26, |lane| [3, 0, 9, 2, 3, 4, 7, 6][lane % 8]);
    machine.wave.set_pair(code::EXEC, u64::MAX << 8);
    machine.execute(&instruction).unwrap();
    assert_eq!(machine.wave.vcc(), 0xea_eaea_eaea_eaea << 8);
    // The sign of a source that is selected, which the assembler lacks, too.
    let instruction = decode([0x0049_00f9, 0x8616_0602]).unwrap();
    assert_eq!(
        instruction.to_string(),
        "v_cndmask_b32_sdwa v36, -v2, 0, vcc dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:DWORD src1_sel:DWORD"
    );
    let mut machine = Machine::new();
    machine.set_word(2, |lane| lane as u32 | 1 << 31);
    machine.wave.set_pair(code::EXEC, u64::MAX);
    machine.wave.set_pair(code::VCC, 1 << 5);
    machine.execute(&instruction).unwrap();
    assert_eq!((machine.lanes(36)[5], machine.lanes(36)[6]), (0, 6));
}

/// Denormal numbers become 0 of their sign where MODE says so, in operands and in results.
pub(super) fn denormals() {
    for (bits, single, other) in [(0xf0, false, false), (0xc0, true, false), (0x30, false, true), (0, true, true)] {
        let mut machine = Machine::new();
        machine.wave.mode = Mode::new(bits).unwrap();
        machine.set_word(10, |lane| SINGLES[lane % SINGLES.len()]);
        machine.set_word(12, |_| 0x8000_0000);
        machine.set_word(14, |_| 0x0001_8001);
        machine.set_vector(16, |_| 0x8000_0000_0000_0001);
        machine.set_vector(18, |_| 0x8000_0000_0000_0000);
        machine.run(
            "v_add_f32 v20, v10, v12\nv_mul_f32 v21, 0.5, v10\nv_add_f16 v22, 0, v14\nv_add_f64 v[24:25], v[16:17], v[18:19]\n\
             v_mov_b32 v26, v10\nv_pk_add_f16 v27, v14, 0",
        );
        for lane in 0..LANES {
            let flushed = |value: f32| {
                if single && value.is_subnormal() { 0.0_f32.copysign(value) } else { value }
            };
            let value = flushed(f32::from_bits(machine.lanes(10)[lane]));
            let sum = value + -0.0;
            let half = flushed(value * 0.5);
            if !value.is_nan() {
                assert_eq!(machine.lanes(20)[lane], sum.to_bits(), "{bits:x} {value:e}");
                assert_eq!(machine.lanes(21)[lane], half.to_bits(), "{bits:x} {value:e}");
            }
            assert_eq!(machine.lanes(26)[lane], machine.lanes(10)[lane]);
        }
        assert_eq!(machine.lanes(22)[0], if other { 0 } else { 0x8001 }, "{bits:x}");
        assert_eq!(machine.vector(24, 2, 0), if other { 1 << 63 } else { 1 << 63 | 1 }, "{bits:x}");
        assert_eq!(machine.lanes(27)[0], if other { 0 } else { 0x0001_8001 }, "{bits:x}");
    }
}

/// Lanes' values in scalar registers and the other way round, which ignore EXEC.
pub(super) fn scalars_and_lanes() {
    let mut machine = Machine::new();
    machine.set_word(10, |lane| 100 + lane as u32);
    machine.set_word(12, |lane| lane as u32);
    machine.wave.set_pair(code::EXEC, 0xf0);
    machine.wave.scalars[7] = 70;
    machine.run("v_readfirstlane_b32 s0, v10\nv_readlane_b32 s1, v10, 63\nv_readlane_b32 s2, v10, s7\nv_writelane_b32 v10, s7, 2");
    assert_eq!(machine.wave.scalars[..3], [104, 163, 106]);
    assert_eq!((machine.lanes(10)[2], machine.lanes(10)[3]), (70, 103));
    machine.run("v_swap_b32 v10, v12\nv_nop");
    assert_eq!((machine.lanes(10)[3], machine.lanes(10)[4], machine.lanes(12)[4]), (103, 4, 104));
    machine.wave.set_pair(code::EXEC, 0);
    machine.run("v_readfirstlane_b32 s0, v12");
    assert_eq!(machine.wave.scalars[0], 0);
    machine.wave.set_pair(code::EXEC, u64::MAX);
    machine.set_word(14, |_| u32::MAX);
    machine.run("v_mbcnt_lo_u32_b32 v20, -1, 0\nv_mbcnt_hi_u32_b32 v20, v14, v20");
    assert_eq!(machine.lanes(20), std::array::from_fn(|lane| lane as u32));
    // The approximations, on numbers for which they are exact.
    machine.set_word(10, |lane| 2.0_f32.powi(lane as i32 - 32).to_bits());
    machine.set_vector(16, |lane| 4.0_f64.powi(lane as i32 - 32).to_bits());
    machine.run(
        "v_rcp_f32 v20, v10\nv_rcp_iflag_f32 v21, v10\nv_log_f32 v22, v10\nv_exp_f32 v23, v22\nv_rsq_f64 v[24:25], v[16:17]\n\
         v_rcp_f64 v[26:27], v[16:17]\nv_sqrt_f64 v[28:29], v[16:17]\nv_log_legacy_f32 v30, v10\nv_exp_legacy_f32 v31, v30\n\
         v_mul_f32 v32, v10, v10\nv_rsq_f32 v33, v32\nv_sqrt_f32 v34, v32\nv_mov_b32 v35, 0.5\nv_sin_f32 v36, v35\n\
         v_cos_f32 v37, v35\nv_mov_b32 v35, 0x4400\nv_rcp_f16 v38, v35\nv_rsq_f16 v39, v35\nv_log_f16 v40, v35\n\
         v_exp_f16 v41, v35\nv_sin_f16 v42, v35\nv_cos_f16 v43, v35\nv_cvt_rpi_i32_f32 v44, v10",
    );
    for lane in 0..LANES {
        let power = lane as i32 - 32;
        let [one, two] = [2.0_f32.powi(-power).to_bits(), 2.0_f32.powi(power).to_bits()];
        assert_eq!([20, 21, 33].map(|register| machine.lanes(register)[lane]), [one; 3]);
        assert_eq!([23, 31, 34].map(|register| machine.lanes(register)[lane]), [two; 3]);
        assert_eq!([22, 30].map(|register| machine.lanes(register)[lane]), [(power as f32).to_bits(); 2]);
        assert_eq!(machine.vector(24, 2, lane), 2.0_f64.powi(-power).to_bits());
        assert_eq!(machine.vector(26, 2, lane), 4.0_f64.powi(-power).to_bits());
        assert_eq!(machine.vector(28, 2, lane), 2.0_f64.powi(power).to_bits());
        assert!(f32::from_bits(machine.lanes(36)[lane]).abs() < 1e-6);
        assert_eq!(machine.lanes(37)[lane], (-1.0_f32).to_bits());
        assert_eq!(machine.lanes(44)[lane] as i32, (f64::from(f32::from_bits(two)) + 0.5).floor() as i32);
    }
    // Of 4, in 16 bits.
    let halves = [38, 39, 40, 41, 43].map(|register| f16::from_bits(machine.lanes(register)[0] as u16).to_f32());
    assert_eq!(halves, [0.25, 0.5, 2.0, 16.0, 1.0]);
    assert!(f16::from_bits(machine.lanes(42)[0] as u16).to_f32().abs() < 1e-3);
}

/// NaN in the mode of IEEE and with DX10_CLAMP.
pub(super) fn modes_of_nan() {
    const SIGNALLING: u32 = 0x7f80_0001;
    let texts = "v_min_f32_e32 v20, v10, v11\nv_max_f32_e32 v21, v11, v10\nv_max_f16_e32 v22, v12, v13\n\
        v_min_f64 v[24:25], v[14:15], v[16:17]\nv_max_f32_e64 v23, v18, v18 clamp";
    let instructions = assembled(texts);
    for (bits, [single, half, high, clamped]) in [
        (0xf0, [1.0_f32.to_bits(), 0x3c00, 0x3ff0_0000, 0x7fc0_0000]),
        (0x2f0, [SIGNALLING | 1 << 22, 0x7e01, 0x7ff8_0000, 0x7fc0_0000]),
        (0x3f0, [SIGNALLING | 1 << 22, 0x7e01, 0x7ff8_0000, 0]),
    ] {
        let mut machine = Machine::new();
        machine.wave.mode = Mode::new(bits).unwrap();
        machine.wave.set_pair(code::EXEC, u64::MAX);
        for (register, word) in [
            (10, SIGNALLING),
            (11, 1.0_f32.to_bits()),
            (12, 0x3c00),
            (13, 0x7c01),
            (14, 1),
            (15, 0x7ff0_0000),
            (16, 0),
            (17, 0x3ff0_0000),
            (18, 0x7fc0_0000),
        ] {
            machine.set_word(register, |_| word);
        }
        for instruction in &instructions {
            machine.execute(instruction).unwrap();
        }
        let found = [20, 21, 22, 25, 23].map(|register| machine.lanes(register)[9]);
        assert_eq!(found, [single, single, half, high, clamped], "{bits:#x}");
    }
}
