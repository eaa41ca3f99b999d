//! Instructions as the assembler writes them.

use std::fmt;

use crate::decode::Instruction;

impl fmt::Display for Instruction {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.row.name)
    }
}
