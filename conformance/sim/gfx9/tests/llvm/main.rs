//! The decoder and its text, compared with LLVM's disassembler.
//!
//! Both refuse words, or both give the same text and length. An instruction without a row in the tables is counted as not
//! implemented. If `llvm-mc` is missing, the tests print the package and pass; with `GPU_INTEROP_REQUIRE_LLVM_MC` they
//! fail. `GPU_INTEROP_CODE_OBJECTS` names more files with programs for gfx906, separated by colons.

// Words are cut off from larger numbers, and a process without answers ends the test.
#![allow(clippy::cast_possible_truncation, clippy::expect_used)]

mod compare;
mod objects;
mod tool;
mod words;

use std::path::Path;

use compare::Report;
use tool::Tool;
use words::{ENCODINGS, Random};

/// Words of the test that runs each time.
const FEW: usize = 20_000;

/// Words of the test of the slow lane.
const MANY: usize = 1_200_000;

#[test]
fn random_words_have_the_same_text() {
    let Some(tool) = Tool::find() else { return };
    random(&tool, FEW, 0x9e37_79b9).check();
}

#[test]
#[ignore = "takes a minute; `cargo xtask slow disassembler` runs it"]
fn many_random_words_have_the_same_text() {
    let Some(tool) = Tool::find() else { return };
    random(&tool, MANY, 0x1234_5678).check();
}

#[test]
fn every_opcode_has_the_same_text() {
    let Some(tool) = Tool::find() else { return };
    opcodes(&tool, 8).check();
}

#[test]
#[ignore = "takes a minute; `cargo xtask slow disassembler` runs it"]
fn every_opcode_has_the_same_text_with_many_operands() {
    let Some(tool) = Tool::find() else { return };
    opcodes(&tool, 200).check();
}

#[test]
#[ignore = "takes a minute; `cargo xtask slow disassembler` runs it"]
fn every_number_and_source_has_the_same_text() {
    let Some(tool) = Tool::find() else { return };
    let mut report = Report::default();
    for (name, words) in words::complete() {
        report.compare(&tool, name, &words);
    }
    report.check();
}

#[test]
fn prebuilt_kernels_have_the_same_text() {
    let Some(tool) = Tool::find() else { return };
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../kernels/prebuilt/gfx906.hsaco");
    let mut report = Report::default();
    let programs = objects::programs(&file).expect("the prebuilt kernels");
    assert!(!programs.is_empty(), "no program for gfx906 in {}", file.display());
    report.compare(&tool, "prebuilt", &programs);
    report.check();
}

#[test]
#[ignore = "takes a minute; `cargo xtask slow disassembler` runs it"]
fn programs_in_runtimes_have_the_same_text() {
    let Some(tool) = Tool::find() else { return };
    let mut report = Report::default();
    let more = std::env::var("GPU_INTEROP_CODE_OBJECTS").unwrap_or_default();
    let files = objects::RUNTIMES.iter().copied().chain(more.split(':').filter(|file| !file.is_empty()));
    for file in files {
        match objects::programs(Path::new(file)) {
            Ok(words) => report.compare(&tool, file.rsplit('/').next().unwrap_or(file), &words),
            Err(error) => println!("LEFT OUT: programs of {file}: {error}"),
        }
    }
    report.check();
}

fn random(tool: &Tool, count: usize, seed: u64) -> Report {
    let mut random = Random::new(seed);
    let mut report = Report::default();
    for encoding in ENCODINGS {
        let words: Vec<_> = (0..count / ENCODINGS.len() + 1).map(|_| encoding.random(&mut random)).collect();
        report.compare(tool, encoding.name, &words);
    }
    report
}

fn opcodes(tool: &Tool, variants: usize) -> Report {
    let mut random = Random::new(1);
    let mut report = Report::default();
    for encoding in ENCODINGS {
        let opcodes = 0..1 << encoding.opcode.1;
        let words: Vec<_> = opcodes
            .flat_map(|opcode| (0..variants).map(move |_| opcode))
            .map(|opcode| encoding.with_opcode(&mut random, opcode))
            .collect();
        report.compare(tool, encoding.name, &words);
    }
    report
}
