//! ROCR's own kernels: copies and fills before the runtime above it has loaded its own.

use super::launch::{Launch, Result};

/// Executes the kernel if its arguments match one of these.
pub(super) fn run(launch: &Launch<'_>) -> Result<bool> {
    let Ok(arguments) = launch.arguments::<88>() else { return Ok(false) };
    let word = |index: usize| arguments.u64(index * 8);
    let items = launch.dispatch.grid[0];
    let memory = &launch.emulation.memory;
    // Aligned copy in four phases: starts of source and target for each, then their ends, then the number of work
    // items.
    let sources = [0, 2, 4, 6, 8].map(word);
    let targets = [1, 3, 5, 7, 9].map(word);
    let steps = |ends: [u64; 5]| ends.windows(2).map(|pair| pair[1].wrapping_sub(pair[0])).collect::<Vec<_>>();
    if arguments.u32(80) == items && sources.is_sorted() && targets.is_sorted() && steps(sources) == steps(targets) {
        memory.copy(launch.gpu, targets[0], sources[0], sources[4] - sources[0])?;
        launch.emulation.counters.add("kernels", "rocr_copy_aligned");
        return Ok(true);
    }
    // Misaligned copy in two phases.
    let sources = [0, 2, 4].map(word);
    let targets = [1, 3, 5].map(word);
    if arguments.u32(48) == items
        && sources.is_sorted()
        && targets.is_sorted()
        && sources[2] - sources[0] == targets[2] - targets[0]
    {
        memory.copy(launch.gpu, targets[0], sources[0], sources[2] - sources[0])?;
        launch.emulation.counters.add("kernels", "rocr_copy_misaligned");
        return Ok(true);
    }
    // Fill in two phases: starts, end, value, number of work items.
    let targets = [0, 1, 2].map(word);
    if arguments.u32(28) == items && targets.is_sorted() {
        memory.fill(launch.gpu, targets[0], targets[2] - targets[0], &arguments.u32(24).to_le_bytes())?;
        launch.emulation.counters.add("kernels", "rocr_fill");
        return Ok(true);
    }
    Ok(false)
}
