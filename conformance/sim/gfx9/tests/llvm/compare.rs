//! Comparison of answers, and the numbers about it.

use std::collections::{BTreeMap, BTreeSet};

use gpu_interop_sim_gfx9::{NO_ROW, decode};

use crate::tool::{Answer, Tool};

/// Numbers of one kind of words.
#[derive(Debug, Default)]
struct Count {
    words: usize,
    valid: usize,
    invalid: usize,
    reserved: usize,
    crashes: usize,
    missing: usize,
    different: usize,
}

/// What comparisons found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    counts: BTreeMap<String, Count>,
    /// Names of instructions that were compared.
    names: BTreeSet<String>,
    /// Names of instructions that are not implemented, and words of each.
    missing: BTreeMap<String, [u32; 2]>,
    /// Differences by the instruction's name in LLVM's text.
    differences: BTreeMap<String, Vec<String>>,
}

/// `true` if LLVM may lack an instruction that Mesa's compiler writes: comparisons with DPP, and the negation of a source
/// of `v_cndmask_b32` with SDWA.
fn is_only_of_mesa(text: &str) -> bool {
    let name = text.split(' ').next().unwrap_or("");
    name.starts_with("v_cmp") && name.ends_with("_dpp")
        || name == "v_cndmask_b32_sdwa" && (text.contains('-') || text.contains('|') || text.contains("neg("))
}

/// Differences that are printed of one instruction.
const SHOWN: usize = 3;

impl Report {
    pub(crate) fn compare(&mut self, tool: &Tool, kind: &str, words: &[[u32; 2]]) {
        let answers = tool.disassemble(words);
        assert_eq!(answers.len(), words.len());
        let count = self.counts.entry(kind.to_owned()).or_default();
        for ([first, second], answer) in words.iter().zip(answers) {
            count.words += 1;
            let ours = decode([*first, *second]);
            let difference = match (&answer, &ours) {
                (Answer::Crash, _) => {
                    count.crashes += 1;
                    None
                }
                (Answer::Invalid, Err(_)) => {
                    count.invalid += 1;
                    None
                }
                (Answer::Invalid, Ok(instruction)) if is_only_of_mesa(&instruction.to_string()) => {
                    count.invalid += 1;
                    None
                }
                (Answer::Valid(text, _), Err(_)) if is_mistaken(*first, text) => {
                    count.invalid += 1;
                    None
                }
                (Answer::Valid(text, _), Err(NO_ROW)) => {
                    count.missing += 1;
                    self.missing.entry(name(text)).or_insert([*first, *second]);
                    None
                }
                (Answer::Valid(text, length), Ok(instruction)) => {
                    count.valid += 1;
                    count.reserved += usize::from(instruction.reserved().is_some());
                    let own = instruction.to_string();
                    self.names.insert(name(&own));
                    let same = own == *text && *length == instruction.length();
                    (!same).then(|| format!("{own:?} of {} bytes", instruction.length()))
                }
                (Answer::Invalid, Ok(instruction)) => Some(format!("{:?}", instruction.to_string())),
                (Answer::Valid(..), Err(reason)) => Some(format!("rejected: {reason}")),
            };
            if let Some(difference) = difference {
                count.different += 1;
                let name = if let Answer::Valid(text, _) = &answer { name(text) } else { "invalid".to_owned() };
                let text = format!("{kind} {first:08x} {second:08x}: {answer:?}, here {difference}");
                self.differences.entry(name).or_default().push(text);
            }
        }
    }

    /// Prints the numbers. Fails if there is a difference.
    pub(crate) fn check(&self) {
        println!("kind words valid (reserved) invalid not-implemented crashes different");
        for (kind, count) in &self.counts {
            let Count { words, valid, reserved, invalid, missing, crashes, different } = count;
            println!("{kind}: {words} {valid} ({reserved}) {invalid} {missing} {crashes} {different}");
        }
        println!("not implemented: {}", self.missing.keys().cloned().collect::<Vec<_>>().join(" "));
        for difference in self.differences.values().flat_map(|list| list.iter().take(SHOWN)) {
            println!("{difference}");
        }
        let both: Vec<_> = self.missing.iter().filter(|(name, _)| self.names.contains(*name)).collect();
        assert!(both.is_empty(), "instructions that are implemented, but were refused: {both:x?}");
        let count: usize = self.differences.values().map(Vec::len).sum();
        assert_eq!(count, 0, "differences");
        assert!(self.counts.values().any(|count| count.valid > 0), "nothing was compared");
    }
}

/// `true` for an answer that is LLVM's mistake: the opcode is that of other processors.
fn is_mistaken(first: u32, text: &str) -> bool {
    first & 0xfdfc_0000 == 0xe1c4_0000 && text == "buffer_wbinvl1"
}

/// The instruction's name without its form.
fn name(text: &str) -> String {
    let name = text.split(' ').next().unwrap_or_default();
    let forms = ["_e32", "_e64", "_sdwa", "_dpp"];
    forms.iter().find_map(|form| name.strip_suffix(form)).unwrap_or(name).to_owned()
}
