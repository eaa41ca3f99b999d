//! The 16-bit numbers of SOPK and SOPP.

use std::fmt;

use super::operand::Constant;
use crate::table::Number;
use crate::value::Kind;

/// A number, written as the instruction says.
pub(super) struct Text {
    pub(super) number: Number,
    pub(super) bits: u16,
}

impl fmt::Display for Text {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.number {
            Number::None => Ok(()),
            Number::Plain => Constant { value: self.bits.into(), kind: Kind::Int32 }.fmt(formatter),
            Number::Hexadecimal => write!(formatter, "{:#x}", self.bits),
            Number::Optional | Number::Distance => write!(formatter, "{}", self.bits),
            Number::Counters => counters(formatter, self.bits),
            Number::Message => message(formatter, self.bits),
            Number::HardwareRegister => hardware_register(formatter, self.bits),
        }
    }
}

/// Writes the counters for which the instruction waits: those that have not their highest value, or all.
fn counters(formatter: &mut fmt::Formatter<'_>, bits: u16) -> fmt::Result {
    let counters = [
        ("vmcnt", bits & 0xf | bits >> 10 & 0x30, 0x3f),
        ("expcnt", bits >> 4 & 7, 7),
        ("lgkmcnt", bits >> 8 & 0xf, 0xf),
    ];
    let none = counters.iter().all(|(_, value, highest)| value == highest);
    let mut separator = "";
    for (name, value, highest) in counters {
        if none || value != highest {
            write!(formatter, "{separator}{name}({value})")?;
            separator = " ";
        }
    }
    Ok(())
}

const REGISTERS: [&str; 7] = ["MODE", "STATUS", "TRAPSTS", "HW_ID", "GPR_ALLOC", "LDS_ALLOC", "IB_STS"];

fn hardware_register(formatter: &mut fmt::Formatter<'_>, bits: u16) -> fmt::Result {
    let (number, offset, count) = (bits & 0x3f, bits >> 6 & 0x1f, (bits >> 11) + 1);
    match number {
        1..=7 => write!(formatter, "hwreg(HW_REG_{}", REGISTERS[usize::from(number - 1)])?,
        15 => formatter.write_str("hwreg(HW_REG_SH_MEM_BASES")?,
        _ => write!(formatter, "hwreg({number}")?,
    }
    // All bits of the register.
    if (offset, count) == (0, 32) { formatter.write_str(")") } else { write!(formatter, ", {offset}, {count})") }
}

/// The names of messages from 1 on.
const MESSAGES: [&str; 10] = [
    "INTERRUPT",
    "GS",
    "GS_DONE",
    "SAVEWAVE",
    "STALL_WAVE_GEN",
    "HALT_WAVES",
    "ORDERED_PS_DONE",
    "EARLY_PRIM_DEALLOC",
    "GS_ALLOC_REQ",
    "GET_DOORBELL",
];

/// The operations of the messages of geometry.
const GEOMETRY: [&str; 4] = ["GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"];

/// The operations of system messages from 1 on.
const SYSTEM: [&str; 4] = ["ECC_ERR_INTERRUPT", "REG_RD", "HOST_TRAP_ACK", "TTRACE_PC"];

fn message(formatter: &mut fmt::Formatter<'_>, bits: u16) -> fmt::Result {
    let (message, operation, stream) = (bits & 0xf, bits >> 4 & 7, bits >> 8 & 3);
    let index = usize::from(operation);
    match (message, operation, stream) {
        (3, 0, 0) => formatter.write_str("sendmsg(MSG_GS_DONE, GS_OP_NOP)"),
        (2 | 3, 1..=3, _) => {
            write!(formatter, "sendmsg(MSG_{}, {}, {stream})", MESSAGES[usize::from(message - 1)], GEOMETRY[index])
        }
        (1 | 4..=10, 0, 0) => write!(formatter, "sendmsg(MSG_{})", MESSAGES[usize::from(message - 1)]),
        (15, 1..=4, 0) => write!(formatter, "sendmsg(MSG_SYSMSG, SYSMSG_OP_{})", SYSTEM[index - 1]),
        _ if bits & !0x37f == 0 => write!(formatter, "sendmsg({message}, {operation}, {stream})"),
        _ => write!(formatter, "{bits}"),
    }
}
