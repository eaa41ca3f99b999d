//! Messages of the kernel that report an error of a GPU or the end of a process.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An error of a GPU, or the end of a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KernelEvent {
    /// `xid`: an error of NVIDIA's driver; `amdgpu`: one of AMD's; on Windows `nvlddmkm` and `amdkmdag`, and `tdr` for a
    /// reset of a GPU; `killed` or `crashed`: the end of a process; `bus`: an error of PCI Express or an IOMMU.
    pub kind: String,
    /// The number of an Xid.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub code: Option<u32>,
    /// The meaning.
    pub meaning: String,
    /// `true` if the GPU needs a reset, or was reset: the outcomes of later cases on it are meaningless.
    pub lost: bool,
    /// `true` if the message names a process that is not known as one of the run's. A container cannot know its own, by the
    /// kernel's numbers.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub other_process: bool,
}

impl KernelEvent {
    /// An event without a number.
    pub(super) fn new(kind: &str, meaning: &str, lost: bool) -> Self {
        Self { kind: kind.into(), code: None, meaning: meaning.into(), lost, other_process: false }
    }

    /// `true` for an error of a GPU, or of its bus.
    pub(crate) fn is_of_gpu(&self) -> bool {
        !self.ends_process() && !self.other_process
    }

    fn ends_process(&self) -> bool {
        matches!(self.kind.as_str(), "killed" | "crashed")
    }

    /// The event of another process, unless it also concerns all processes. `is_known`: the process is not one of the run.
    pub(super) fn of_another(mut self, is_known: bool) -> Self {
        if self.lost || !(is_known || self.ends_process()) {
            return self;
        }
        self.other_process = true;
        if is_known {
            self.meaning = match self.kind.as_str() {
                "killed" => "the kernel killed another process for its memory".into(),
                "crashed" => "another process crashed".into(),
                _ => format!("{}, of another process", self.meaning),
            };
        }
        self
    }
}

/// The documented Xids that occur with applications, and `true` for those after which the GPU needs a reset.
const XIDS: [(u32, &str, bool); 24] = [
    (8, "a channel timed out", false),
    (13, "exception of the graphics or compute engine", false),
    (31, "page fault of the GPU", false),
    (32, "invalid or corrupted push buffer", false),
    (38, "firmware error of the driver", false),
    (43, "the GPU stopped processing", false),
    (45, "preemptive cleanup of a channel after an error", false),
    (46, "the GPU stopped processing commands", true),
    (48, "double bit ECC error", true),
    (61, "breakpoint of the internal microcontroller", true),
    (62, "halt of the internal microcontroller", true),
    (63, "a row of memory is to be remapped", false),
    (64, "remapping a row of memory failed", true),
    (68, "exception of the video processor", false),
    (69, "exception of the class of an engine", false),
    (74, "NVLink error", true),
    (79, "the GPU has fallen off the bus", true),
    (92, "many single bit ECC errors", false),
    (94, "contained ECC error", false),
    (95, "uncontained ECC error", true),
    (109, "a context switch timed out", false),
    (119, "a call of the system processor (GSP) timed out", true),
    (120, "error of the system processor (GSP)", true),
    (140, "unrecovered ECC error", true),
];

/// Texts of amdgpu and amdkfd, lower case, and `true` for those after which earlier work is lost.
const AMDGPU: [(&str, &str, bool); 11] = [
    ("gpu reset begin", "the GPU is reset", true),
    ("gpu reset end with ret", "the reset of the GPU ended", true),
    ("gpu reset(", "the GPU was reset", true),
    ("gpu recovery failed", "the GPU could not be reset", true),
    ("vram is lost", "the GPU's memory is lost", true),
    ("device lost from bus", "the GPU has fallen off the bus", true),
    ("ring ", "a ring timed out", false),
    ("page fault", "page fault of the GPU", false),
    ("evicting pasid", "the queues of a process hang", false),
    ("failed to evict", "the queues of a process cannot be stopped", true),
    ("uncorrectable", "uncorrectable ECC error", true),
];

/// The meaning of a message of Linux.
pub(super) fn recognise(text: &str) -> Option<KernelEvent> {
    let event = |kind, meaning, lost| Some(KernelEvent::new(kind, meaning, lost));
    if let Some((_, rest)) = text.split_once("NVRM: Xid") {
        // `(PCI:0000:3b:00): 79, pid=...`
        let after = rest.split_once("): ").map_or(rest, |(_, after)| after);
        let digits: String = after.trim_start().chars().take_while(char::is_ascii_digit).collect();
        let code: u32 = digits.parse().ok()?;
        let known = XIDS.iter().find(|(known, ..)| *known == code);
        let (meaning, lost) =
            known.map_or(("an error of NVIDIA's driver", false), |(_, meaning, lost)| (*meaning, *lost));
        return Some(KernelEvent { code: Some(code), ..KernelEvent::new("xid", meaning, lost) });
    }
    let lower = text.to_lowercase();
    if lower.contains("nvrm:") && lower.contains("fallen off the bus") {
        return event("xid", "the GPU has fallen off the bus", true);
    }
    if lower.contains("amdgpu") || lower.contains("amdkfd") || lower.contains("kfd:") {
        let is = |part: &str| lower.contains(part) && (part != "ring " || lower.contains("timeout"));
        let known = AMDGPU.iter().find(|(part, ..)| is(part));
        return known.and_then(|(_, meaning, lost)| event("amdgpu", meaning, *lost));
    }
    if lower.contains("killed process") {
        return event("killed", "the kernel killed a process for its memory", false);
    }
    if lower.contains("segfault at")
        || lower.contains("general protection fault")
        || lower.contains("trap invalid opcode")
    {
        return event("crashed", "a process crashed", false);
    }
    if lower.contains("aer:") || lower.contains("dmar: [dma") || lower.contains("io_page_fault") {
        return event("bus", "error of PCI Express or an IOMMU", false);
    }
    None
}

/// `true` if a message gives the process this name: `name[123]:`, `(name)`, `name=name`.
pub(super) fn names(text: &str, name: &str) -> bool {
    let begins = |before: &str| before.is_empty() || before.ends_with([' ', '(', '=', ':']);
    let ends = |after: &str| after.is_empty() || after.starts_with(['[', ')', ',', ' ']);
    !name.is_empty() && text.match_indices(name).any(|(at, _)| begins(&text[..at]) && ends(&text[at + name.len()..]))
}

/// The id of the process that a message names.
pub(super) fn process(text: &str) -> Option<u32> {
    let number = |rest: &str| {
        let digits: String = rest.trim_start_matches([' ', '=']).chars().take_while(char::is_ascii_digit).collect();
        digits.parse().ok()
    };
    let after = |word: &str| text.split_once(word).and_then(|(_, rest)| number(rest));
    let bracketed = || {
        // `name[123]: segfault at`
        let (before, _) = text.split_once("]: ")?;
        let (_, digits) = before.rsplit_once('[')?;
        digits.parse().ok()
    };
    after("pid=").or_else(|| after(" pid ")).or_else(|| after("Killed process ")).or_else(bracketed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_gpus_are_recognised() {
        for (text, kind, code, lost, pid) in [
            (
                "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, name=x, GPU has fallen off the bus.",
                "xid",
                Some(79),
                true,
                Some(1234),
            ),
            ("NVRM: Xid (PCI:0000:3b:00): 31, Ch 00000010", "xid", Some(31), false, None),
            ("NVRM: GPU at PCI:0000:3b:00 has fallen off the bus.", "xid", None, true, None),
            ("amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", "amdgpu", None, true, None),
            ("amdgpu 0000:03:00.0: amdgpu: GPU reset(2) succeeded!", "amdgpu", None, true, None),
            ("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout", "amdgpu", None, false, None),
            (
                "amdgpu 0000:03:00.0: amdgpu: [gfxhub0] page fault (src_id:0 ring:24 vmid:8 pasid:32770, for process x pid 77 thread x pid 78)",
                "amdgpu",
                None,
                false,
                Some(77),
            ),
            ("Out of memory: Killed process 99 (conformance) total-vm:1kB", "killed", None, false, Some(99)),
            ("conformance[4321]: segfault at 0 ip 00007f", "crashed", None, false, Some(4321)),
        ] {
            let event = recognise(text).unwrap_or_else(|| panic!("{text}"));
            assert_eq!((event.kind.as_str(), event.code, event.lost), (kind, code, lost), "{text}");
            assert_eq!(process(text), pid, "{text}");
        }
        for text in ["eth0: link up", "amdgpu 0000:03:00.0: amdgpu: SMU is initialized", "NVRM: loading"] {
            assert_eq!(recognise(text), None, "{text}");
        }
    }
}
