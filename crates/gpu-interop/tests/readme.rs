//! Compares the README's example with `examples/fill.rs`.

#[test]
fn the_readme_contains_the_compiled_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).expect(path);
    let readme = read("README.md");
    let example = read("crates/gpu-interop/examples/fill.rs");
    assert!(readme.contains(&format!("```rust\n{example}```\n")), "README.md and examples/fill.rs differ");
}
