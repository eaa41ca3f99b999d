//! Kernels in C: each is executed by the interpreter and compiled for this machine, and all results are equal.

use libloading::Library;

use super::compile::Compiled;
use super::generate::{Generator, Random, TYPES, Type};
use super::program::{Grid, Program, finish};
use super::space::{Space, bytes_of};
use crate::Stop;

/// A kernel for this machine: input, output, a number, and the shape of the launch.
type Native = unsafe extern "C" fn(*const u32, *mut u32, u32, *const u32);

/// What was compared.
#[derive(Debug, Default)]
pub(super) struct Totals {
    kernels: usize,
    values: usize,
    instructions: u64,
}

/// A launch of a kernel.
#[derive(Debug)]
struct Case<'a> {
    name: &'a str,
    grid: Grid,
    input: &'a [u32],
    /// Words of the output.
    output: usize,
    number: u32,
}

/// Runs a kernel on both processors.
fn outputs(
    compiled: &Compiled,
    library: &Library,
    case: &Case<'_>,
    totals: &mut Totals,
) -> Result<[Vec<u32>; 2], Stop> {
    let mut space = Space::default();
    let program = Program::load(&mut space, &compiled.code_object);
    let initial = vec![0; case.output];
    let (input, output) = (space.map(&bytes_of(case.input), false), space.map(&bytes_of(&initial), true));
    let mut arguments = [input.to_le_bytes(), output.to_le_bytes()].concat();
    arguments.extend(case.number.to_le_bytes());
    let mut dispatch = program.dispatch(&mut space, case.name, case.grid, &arguments);
    totals.instructions += finish(&mut dispatch, &space)?;
    totals.kernels += 1;
    totals.values += case.output;

    let mut expected = initial;
    let Grid { groups, group, last } = case.grid;
    let shape = [groups, group, last].concat();
    // SAFETY: the function has this type: the prelude declares it.
    let native = unsafe { library.get::<Native>(case.name.as_bytes()) }.expect("the function");
    // SAFETY: it accesses the words that the same kernel accessed in the interpreter, which fails beyond them.
    unsafe { native(case.input.as_ptr(), expected.as_mut_ptr(), case.number, shape.as_ptr()) };
    Ok([space.words(output), expected])
}

fn open(compiled: &Compiled) -> Library {
    // SAFETY: the library's constructors do nothing.
    unsafe { Library::new(compiled.native()) }.expect("the library")
}

/// Random functions of numbers: `kernels` of each sort, each with `items` work items.
pub(super) fn random_functions(seed: u64, kernels: usize, items: u32, flags: &[&str]) -> Totals {
    let mut generator = Generator::new(seed);
    let (mut source, mut all) = (String::new(), Vec::new());
    for number in 0..kernels {
        let types: [Type; 4] = std::array::from_fn(|_| generator.random.pick(&TYPES));
        let name = format!("expressions{number}");
        let depth = 1 + (number % 3) as u32;
        source.push_str(&generator.expressions(&name, &types, depth));
        all.push((name, types.to_vec()));
        let name = format!("statements{number}");
        let types = [types[0], types[1], types[2]];
        source.push_str(&generator.statements(&name, &types));
        all.push((name, types.to_vec()));
    }
    let compiled = Compiled::new(&source, flags);
    let library = open(&compiled);
    let mut random = Random::new(seed + 1);
    let words = (0..items * 3).flat_map(|_| {
        let word = random.word();
        [word as u32, (word >> 32) as u32]
    });
    let input: Vec<u32> = words.collect();
    let (mut totals, mut failures) = (Totals::default(), Vec::new());
    for (name, types) in &all {
        let output = items as usize * types.len() * 2;
        let case = Case { name, grid: Grid::line(items, 192), input: &input, output, number: items };
        let [found, expected] = match outputs(&compiled, &library, &case, &mut totals) {
            Ok(both) => both,
            Err(stop) => {
                failures.push(format!("{name}: {stop}"));
                continue;
            }
        };
        let pairs = found.chunks_exact(2).zip(expected.chunks_exact(2));
        let mut different = pairs.enumerate().filter(|(_, (found, expected))| found != expected);
        let Some((place, (found, expected))) = different.next() else { continue };
        let (item, result) = (place / types.len(), place % types.len());
        let start = source.find(&format!("ITEMS({name})")).unwrap();
        let text = &source[start..][..source[start..].find("\n}\n").unwrap()];
        let words: Vec<_> =
            input[item * 6..][..6].chunks(2).map(|word| format!("{:08x}{:08x}", word[1], word[0])).collect();
        failures.push(format!(
            "item {item}, {:?} {result}, and {} more: found {:08x}{:08x}, expected {:08x}{:08x}, of {words:?}\n{text}",
            types[result],
            different.count(),
            found[1],
            found[0],
            expected[1],
            expected[0],
        ));
    }
    assert!(failures.is_empty(), "{} kernels of seed {seed}, of {totals:?}:\n{}", failures.len(), failures.join("\n"));
    totals
}

/// Kernels of memory, LDS, atomic operations and waves.
pub(super) fn special_kernels() -> Totals {
    let compiled = Compiled::new(include_str!("kernels/special.c"), &[]);
    let library = open(&compiled);
    let mut random = Random::new(3);
    let input: Vec<u32> = (0..8192).map(|_| random.word() as u32).collect();
    let boxes = Grid { groups: [3, 3, 2], group: [8, 4, 4], last: [7, 3, 1] };
    let whole = Grid::line(768, 256);
    let cases = [
        ("unaligned", Grid::line(1000, 256), 5500, 1000),
        ("places", boxes, 23 * 11 * 5, 0),
        ("private_arrays", Grid::line(700, 192), 700, 700),
        ("pairs", Grid::line(1000, 64), 32000, 1000),
        ("scan", Grid::line(1024, 256), 1024, 1000),
        ("reverse", whole, 768 * 3, 768),
        ("atomics", Grid::line(1000, 256), 1064, 1000),
        ("shared_atomics", Grid::line(1024, 256), 256, 1000),
        ("waves", Grid::line(1001, 256), 24024, 1001),
        ("waves", Grid::line(110, 64), 2640, 110),
    ];
    let (mut totals, mut failures) = (Totals::default(), Vec::new());
    for (name, grid, output, number) in cases {
        let case = Case { name, grid, input: &input, output, number };
        match outputs(&compiled, &library, &case, &mut totals) {
            Err(stop) => failures.push(format!("{name}: {stop}")),
            Ok([found, expected]) => {
                let different: Vec<_> = (0..output).filter(|word| found[*word] != expected[*word]).collect();
                if let Some(first) = different.first() {
                    failures.push(format!(
                        "{name}: {} words, the first {different:?}: found {:x}, expected {:x}",
                        different.len(),
                        found[*first],
                        expected[*first],
                        different = &different[..different.len().min(24)],
                    ));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    totals
}
