//! Tests of meaning: programs are executed by the interpreter, and their results are compared with those of the same
//! programs on this machine, or with the instructions' definitions.

mod compile;
mod generate;
mod kernels;
mod machine;
mod numbers;
mod program;
pub(crate) mod rows;
mod scalar;
mod space;
mod speed;
mod vector;

#[test]
fn vector_instructions() {
    if compile::has_tools() {
        vector::check();
    }
}

#[test]
fn random_functions() {
    if compile::has_tools() {
        println!("{:?}", kernels::random_functions(1, 40, 500, &[]));
    }
}

#[test]
fn scalar_instructions() {
    if compile::has_tools() {
        scalar::check();
    }
}

#[test]
fn special_kernels() {
    if compile::has_tools() {
        println!("{:?}", kernels::special_kernels());
    }
}

/// As [`random_functions`], with other seeds.
#[test]
#[ignore = "takes minutes"]
fn many_random_functions() {
    if compile::has_tools() {
        let first: u64 = std::env::var("SEED").map_or(2, |seed| seed.parse().unwrap());
        for seed in first..first + 8 {
            println!("seed {seed}: {:?}", kernels::random_functions(seed, 100, 1000, &[]));
        }
    }
}

/// Prints speeds; of interest in a build with `--release`.
#[test]
#[ignore = "measures"]
fn speed() {
    if compile::has_tools() {
        speed::measure();
    }
}
