//! Committed files whose content tests know.

use std::path::Path;

/// `true` if tests write such files instead of comparing them: `GPU_INTEROP_RECORD` is set.
pub fn recording() -> bool {
    std::env::var_os("GPU_INTEROP_RECORD").is_some()
}

/// Compares a committed file with `text`, or writes it if `GPU_INTEROP_RECORD` is set.
///
/// # Errors
/// If the file differs, with the lines that do, or cannot be read or written.
pub fn committed(path: &Path, text: &str) -> Result<(), String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    if recording() {
        return std::fs::write(path, text).map_err(named);
    }
    // Git may write line ends of Windows.
    let file = std::fs::read_to_string(path).map_err(named)?.replace("\r\n", "\n");
    if file == text {
        return Ok(());
    }
    let only = |sign, text: &str, other: &str| -> String {
        let lines = text.lines().filter(|line| other.lines().all(|there| there != *line));
        lines.take(20).map(|line| format!("\n{sign} {line}")).collect()
    };
    let lines = only('-', &file, text) + &only('+', text, &file);
    Err(format!("{} is out of date; `cargo xtask record` writes it:{lines}", path.display()))
}
