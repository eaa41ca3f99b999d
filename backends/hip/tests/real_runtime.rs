//! dbg
fn main() {
    match gpu_interop_hip::HipBackend::load() { Ok(b) => println!("{:?}", gpu_interop_core::Backend::info(&b)), Err(e) => println!("{:?}: {e}", e.kind()) }
}
