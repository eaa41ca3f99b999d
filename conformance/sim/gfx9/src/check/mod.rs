//! Tests of meaning: programs are executed by the interpreter, and their results are compared with those of the same
//! programs on this machine, or with the instructions' definitions.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "these are tests, also outside of functions"
)]
#![allow(clippy::needless_range_loop, reason = "lanes number registers, too")]
#![allow(clippy::type_complexity, reason = "tables of functions are read line by line")]

mod compile;
mod conversions;
mod division;
mod generate;
mod kernels;
mod machine;
mod memory;
mod numbers;
mod packed;
mod program;
mod routes;
pub(crate) mod rows;
mod scalar;
pub(crate) mod space;
mod speed;
mod vector;

use std::sync::OnceLock;

/// A test that notes the rows of the tables it executes. It runs once, also if another test needs its rows.
macro_rules! checks {
    ($($name:ident => $check:expr;)*) => {
        $(
            fn $name() -> &'static rows::Rows {
                static EXECUTED: OnceLock<rows::Rows> = OnceLock::new();
                EXECUTED.get_or_init(|| rows::of(|| $check))
            }
        )*

        /// All of them as tests.
        mod each {
            $(
                #[test]
                fn $name() {
                    if super::compile::has_tools() {
                        super::$name();
                    }
                }
            )*
        }

        const CHECKS: &[fn() -> &'static rows::Rows] = &[$($name),*];
    };
}

checks! {
    atomics => memory::atomics();
    cubes => vector::cubes();
    denormals => routes::denormals();
    comparisons_of_other_lanes => routes::comparisons_of_other_lanes();
    descriptors => memory::descriptors();
    divisions => division::divisions(1 << 14);
    lanes_of_dpp => routes::other_lanes();
    modes_of_nan => routes::modes_of_nan();
    packed_instructions => packed::check();
    parts_of_other_instructions => routes::parts_of_other_instructions();
    private_memory_by_scalars => memory::private_memory_by_scalars();
    random_functions => println!("{:?}", kernels::random_functions(1, 40, 500, &[]));
    scalar_accesses => memory::scalar_accesses();
    scalar_instructions => scalar::check();
    scalars_and_lanes => routes::scalars_and_lanes();
    selections_of_sdwa => routes::selections();
    shared_accesses => memory::shared_accesses();
    shared_atomics => memory::shared_atomics();
    special_kernels => println!("{:?}", kernels::special_kernels());
    vector_accesses => memory::vector_accesses();
    vector_instructions => vector::check();
}

/// Rows that no test executes.
const NEVER: &[&str] = &[];

#[test]
fn every_row_is_executed() {
    if compile::has_tools() {
        let executed = CHECKS.iter().flat_map(|check| check()).copied().collect();
        // Images have tests of their own.
        let missing: Vec<_> = rows::missing(&executed).into_iter().filter(|name| !name.starts_with("Mimg")).collect();
        assert_eq!(missing, NEVER, "{} of {} rows are never executed", missing.len(), rows::count());
    }
}

/// As `random_functions`, with other seeds; `SEED` names the first.
#[test]
#[ignore = "takes minutes; `cargo xtask slow interpreter` runs it"]
fn many_random_functions() {
    if compile::has_tools() {
        let first: u64 = std::env::var("SEED").map_or(2, |seed| seed.parse().unwrap());
        for seed in first..first + 8 {
            println!("seed {seed}: {:?}", kernels::random_functions(seed, 40, 1000, &[]));
        }
    }
}

/// As `divisions`, of millions of numbers.
#[test]
#[ignore = "takes a minute; `cargo xtask slow interpreter` runs it"]
fn many_divisions() {
    if compile::has_tools() {
        division::divisions(1 << 20);
    }
}

/// Speeds, which have a least value in a build with `--release`.
#[test]
#[ignore = "takes a minute, and is exact on an idle machine only; `cargo xtask slow interpreter` runs it"]
fn speed() {
    if compile::has_tools() {
        speed::measure();
    }
}
