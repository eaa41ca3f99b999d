//! Which rows of the tables the tests of this thread executed.

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::decode::Instruction;
use crate::table::{self, Encoding};

/// Rows that were executed.
pub(crate) type Rows = BTreeSet<(Encoding, u16)>;

thread_local! {
    static EXECUTED: RefCell<Rows> = RefCell::default();
}

/// Notes an instruction that is executed.
pub(crate) fn record(instruction: &Instruction) {
    let row = std::ptr::from_ref(instruction.row);
    EXECUTED.with_borrow_mut(|rows| {
        let mut encoding = instruction.fields.encoding;
        // A row of a shorter encoding may be executed in VOP3.
        if encoding == Encoding::Vop3 {
            let places = [Encoding::Vop3, Encoding::Vopc, Encoding::Vop2, Encoding::Vop1];
            let found = places.into_iter().find(|place| {
                table::find(*place, instruction.fields.opcode).is_some_and(|found| std::ptr::from_ref(found) == row)
            });
            encoding = found.expect("a row of the tables");
        }
        rows.insert((encoding, instruction.row.opcode));
    });
}

/// The rows that a function executes.
pub(crate) fn of(function: impl FnOnce()) -> Rows {
    EXECUTED.take();
    function();
    EXECUTED.take()
}

/// Names of the rows that are not in a set.
pub(crate) fn missing(executed: &Rows) -> Vec<String> {
    let all = table::rows().filter(|(encoding, row)| !executed.contains(&(*encoding, row.opcode)));
    all.map(|(encoding, row)| format!("{encoding:?} {}", row.name)).collect()
}

/// Number of all rows.
pub(crate) fn count() -> usize {
    table::rows().count()
}
