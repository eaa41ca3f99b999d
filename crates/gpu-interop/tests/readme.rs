//! Compares the README's code with `examples/fill.rs`.

#[test]
fn the_readme_shows_lines_of_the_compiled_example() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let read = |path: &str| std::fs::read_to_string(format!("{root}/{path}")).expect(path);
    let readme = read("README.md");
    let (_, rest) = readme.split_once("```rust\n").expect("a block of Rust");
    let (shown, _) = rest.split_once("```").expect("its end");
    // In the example these lines are indented as the body of a function, in the README as an item of a list.
    let shown: String = shown.trim_end().lines().map(|line| format!("    {}\n", line.trim_start())).collect();
    assert!(shown.lines().count() > 3, "{shown}");
    assert!(read("crates/gpu-interop/examples/fill.rs").contains(&shown), "examples/fill.rs has other lines:\n{shown}");
}
