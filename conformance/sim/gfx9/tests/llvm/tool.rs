//! LLVM's disassembler as a process.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// The answer for the words of one instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Invalid,
    /// The text, with single spaces, and the length in bytes.
    Valid(String, u64),
    /// The disassembler crashed.
    Crash,
}

/// The program `llvm-mc`.
#[derive(Debug)]
pub(crate) struct Tool {
    program: String,
}

/// The version whose texts the interpreter writes. Newer ones write constants of 16 and 64 bits, results with `tfe` or
/// `lds`, and more hardware registers in other ways, and comment registers that an operand cannot be.
const VERSION: u32 = 14;

const NAMES: [&str; 3] = ["llvm-mc-14", "/usr/lib/llvm-14/bin/llvm-mc", "llvm-mc"];

/// Instructions per process.
const BATCH: usize = 8192;

/// The start of an instruction that only separates others: `s_mov_b32 s0, 0x5a......`, with the number of the block.
const MARK: u32 = 0x5a00_0000;

impl Tool {
    /// Finds a disassembler for gfx906. Without one, prints what to install.
    pub(crate) fn find() -> Option<Self> {
        let found = NAMES.into_iter().find(|program| {
            let output = Command::new(program).arg("--version").output();
            let text =
                output.map_or_else(|_| String::new(), |output| String::from_utf8_lossy(&output.stdout).into_owned());
            let version = text.split_once("version ").and_then(|(_, rest)| rest.split('.').next()?.parse().ok());
            version == Some(VERSION) && text.contains("amdgcn")
        });
        if found.is_none() {
            let remedy = "llvm-mc of LLVM 14 with AMD's target is missing: install the package llvm-14";
            assert!(std::env::var_os("GPU_INTEROP_REQUIRE_LLVM_MC").is_none(), "{remedy}");
            println!("LEFT OUT: the comparison with LLVM's disassembler: {remedy}");
        }
        found.map(|program| Self { program: program.to_owned() })
    }

    /// The answers for instructions of one or two words.
    pub(crate) fn disassemble(&self, words: &[[u32; 2]]) -> Vec<Answer> {
        let half = words.len().div_ceil(2).max(1);
        let mut answers = Vec::with_capacity(words.len());
        std::thread::scope(|scope| {
            let parts: Vec<_> = words.chunks(half).map(|part| scope.spawn(|| self.disassemble_all(part))).collect();
            for part in parts {
                answers.extend(part.join().expect("a thread"));
            }
        });
        answers
    }

    fn disassemble_all(&self, words: &[[u32; 2]]) -> Vec<Answer> {
        let mut answers: Vec<Answer> = Vec::with_capacity(words.len());
        let mut batch = BATCH;
        while answers.len() < words.len() {
            let rest = &words[answers.len()..];
            let part = &rest[..batch.min(rest.len())];
            let known = self.run(part);
            if known.len() == part.len() {
                batch = BATCH;
            } else if part.len() == 1 {
                answers.push(Answer::Crash);
                batch = BATCH;
                continue;
            } else {
                batch = (part.len() / 2).max(1);
            }
            answers.extend(known);
        }
        answers
    }

    /// The answers for the first instructions: all, unless the process crashes.
    fn run(&self, words: &[[u32; 2]]) -> Vec<Answer> {
        let mut input = String::new();
        for (index, [first, second]) in words.iter().enumerate() {
            let mark = [0xbe80_00ff, MARK + index as u32];
            // After a failure in a block, the disassembler continues with the next block.
            block(&mut input, &[*first, *second, mark[0], mark[1]]);
            block(&mut input, &mark);
        }
        let mut child = Command::new(&self.program)
            .args(["-disassemble", "-arch=amdgcn", "-mcpu=gfx906"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("llvm-mc");
        let mut stdin = child.stdin.take().expect("its input");
        let writer = std::thread::spawn(move || _ = stdin.write_all(input.as_bytes()));
        let output = child.wait_with_output().expect("its output");
        writer.join().expect("the writer");
        let text = String::from_utf8_lossy(&output.stdout);
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
        let lines: Vec<_> = lines.filter(|line| !line.is_empty() && line != ".text").collect();
        parse(&lines, words.len())
    }
}

fn block(input: &mut String, words: &[u32]) {
    let bytes: Vec<_> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let mut separator = '[';
    for byte in bytes {
        _ = write!(input, "{separator}{byte:#x}");
        separator = ',';
    }
    input.push_str("]\n");
}

/// An instruction's block has its text and, if it had 8 bytes, only the mark after it. Then follows a block with the mark.
fn parse(lines: &[String], count: usize) -> Vec<Answer> {
    let mut answers = Vec::with_capacity(count);
    let mut at = 0;
    while answers.len() < count {
        let mark = format!("s_mov_b32 s0, {:#x}", MARK + answers.len() as u32);
        let Some(length) = lines[at..].iter().position(|line| *line == mark) else { break };
        let block = &lines[at..at + length];
        at += length + 1;
        // The block's own mark, unless other instructions consumed it.
        let own = lines.get(at).is_some_and(|line| *line == mark);
        at += usize::from(own);
        answers.push(match block {
            [] => Answer::Invalid,
            [text, ..] if text.contains("/* Invalid") || text.contains("/*invalid") => Answer::Invalid,
            [text, ..] if text.contains("is not supported on") => Answer::Invalid,
            [text] if own => Answer::Valid(text.clone(), 8),
            [text, ..] => Answer::Valid(text.clone(), 4),
        });
    }
    answers
}
