//! Error type of the library: the failed operation, its values, and the next step.

use std::fmt;

use crate::identity::DeviceIdentity;

/// Result type of this library.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Category of an [`Error`]. Match on it to decide on the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[cfg_attr(feature = "schemars", derive(schemars::JsonSchema))]
#[non_exhaustive]
pub enum ErrorKind {
    /// No driver library could be loaded; [`Error::attempts`] lists every path tried with the reason of its failure.
    DriverNotFound,
    /// The driver is older than the operation requires.
    DriverTooOld,
    /// The driver library lacks a function that the operation requires.
    SymbolMissing,
    /// The driver has no usable device.
    NoDevice,
    /// The handle was exported by another device than the importing one; [`Error::mismatch`] has both identities.
    DeviceMismatch,
    /// The operating system, backend or device lacks this feature. Permanent: retrying does not help.
    Unsupported,
    /// The request violates a documented rule. Detected before the driver is called.
    InvalidArgument,
    /// The request is valid, but the driver rejected the handle.
    ImportRejected,
    /// The requirements of several users of one object conflict; the error lists them.
    ReconciliationFailed,
    /// Host or device memory ran out.
    OutOfMemory,
    /// A bounded wait timed out. The wait may be repeated.
    Timeout,
    /// The work was abandoned because its device was closed, or a timeline failed: abandoned, or its watched process
    /// ended.
    Cancelled,
    /// A timeline had passed the value before the stream signalled it, so waits for the value ended too early. Use one
    /// timeline for each direction.
    Overtaken,
    /// A host function of the application, enqueued on a stream, panicked.
    HostFunctionPanicked,
    /// A call of the operating system failed (descriptor limit, mapping limit, ...).
    System,
    /// The driver reports that no work runs on the device any more, for example after a kernel accessed an invalid
    /// address or the device fell off the bus. Every later operation fails; most drivers require a new process.
    #[doc(alias(
        "cuDevicePrimaryCtxGetState",
        "cuDevicePrimaryCtxReset",
        "cudaDeviceReset",
        "hipDeviceReset",
        "hipPointerGetAttribute",
        "VK_ERROR_DEVICE_LOST"
    ))]
    DeviceLost,
    /// A driver failure without a more specific kind; see [`Error::code`].
    Driver,
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DriverNotFound => "driver not found",
            Self::DriverTooOld => "driver too old",
            Self::SymbolMissing => "symbol missing",
            Self::NoDevice => "no device",
            Self::DeviceMismatch => "device mismatch",
            Self::Unsupported => "unsupported",
            Self::InvalidArgument => "invalid argument",
            Self::ImportRejected => "import rejected",
            Self::ReconciliationFailed => "reconciliation failed",
            Self::OutOfMemory => "out of memory",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Overtaken => "overtaken",
            Self::HostFunctionPanicked => "host function panicked",
            Self::System => "system error",
            Self::DeviceLost => "device lost",
            Self::Driver => "driver error",
        })
    }
}

/// Status code returned by a driver. A number, so that codes unknown to this library are preserved.
#[doc(alias(
    "CUresult",
    "cudaError_t",
    "hipError_t",
    "VkResult",
    "cuGetErrorName",
    "cudaGetErrorName",
    "hipGetErrorName",
    "cuGetErrorString",
    "cudaGetErrorString",
    "hipGetErrorString",
    "glGetError"
))]
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct DriverCode {
    /// The number.
    pub value: i64,
    /// The driver's name of the code, if known (`CUDA_ERROR_INVALID_VALUE`).
    pub name: Option<String>,
}

impl DriverCode {
    /// A driver's number, and the driver's name for it if it has one.
    #[must_use]
    pub fn new(value: i64, name: impl Into<Option<String>>) -> Self {
        Self { value, name: name.into() }
    }
}

impl fmt::Display for DriverCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(f, "{name} ({})", self.value),
            None => write!(f, "code {}", self.value),
        }
    }
}

/// A library path tried while loading a driver, or a backend tried during selection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LoadAttempt {
    /// The path or name tried.
    pub target: String,
    /// Reason why it was not used.
    pub reason: String,
    #[cfg_attr(feature = "serde", serde(skip))]
    kind: Option<ErrorKind>,
}

impl LoadAttempt {
    /// An attempt to load `target` that failed for `reason`.
    #[must_use]
    pub fn new(target: impl Into<String>, reason: impl Into<String>) -> Self {
        Self { target: target.into(), reason: reason.into(), kind: None }
    }

    /// An attempt to use `target` that failed with `error`.
    #[must_use]
    pub fn failed(target: impl Into<String>, error: &Error) -> Self {
        Self { kind: Some(error.kind()), ..Self::new(target, error.to_string()) }
    }

    /// `true` if a driver is there and failed. `false` if none is installed or contained in this build, if it has no device,
    /// or if the reason is known as text only, as after serialization.
    #[must_use]
    pub fn driver_failed(&self) -> bool {
        use ErrorKind::{DriverNotFound, NoDevice, Unsupported};
        self.kind.is_some_and(|kind| !matches!(kind, DriverNotFound | NoDevice | Unsupported))
    }
}

impl fmt::Display for LoadAttempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.target, self.reason)
    }
}

/// Identities of the exporting and the importing device where they differ.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Mismatch {
    /// Exporting device.
    pub exporter: DeviceIdentity,
    /// Importing device.
    pub importer: DeviceIdentity,
}

type Source = Box<dyn std::error::Error + Send + Sync + 'static>;

/// An error with its operation, values, driver code and sources.
///
/// `Display` prints the operation, device, driver code and the values involved on one line;
/// [`std::error::Error::source`] returns the underlying error, if any. `Debug` prints the same with the sources below,
/// because a `main` that returns an error prints `Debug`; `{:#?}` prints the fields.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct Error(Box<Report>);

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() {
            return fmt::Debug::fmt(&self.0, f);
        }
        write!(f, "{self}")?;
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            write!(f, "\ncaused by: {error}")?;
            source = error.source();
        }
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("{}", RenderReport { kind: *kind, operation, backend, device, code, message, attempts, mismatch, context })]
struct Report {
    kind: ErrorKind,
    operation: &'static str,
    backend: Option<String>,
    device: Option<String>,
    code: Option<DriverCode>,
    message: String,
    attempts: Vec<LoadAttempt>,
    mismatch: Option<Mismatch>,
    context: Vec<(&'static str, String)>,
    #[source]
    source: Option<Source>,
}

struct RenderReport<'a> {
    kind: ErrorKind,
    operation: &'static str,
    backend: &'a Option<String>,
    device: &'a Option<String>,
    code: &'a Option<DriverCode>,
    message: &'a str,
    attempts: &'a [LoadAttempt],
    mismatch: &'a Option<Mismatch>,
    context: &'a [(&'static str, String)],
}

impl fmt::Display for RenderReport<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.operation, self.kind, self.message)?;
        let mut separator = " [";
        let mut field = |f: &mut fmt::Formatter<'_>, key: &str, value: &dyn fmt::Display| {
            let result = write!(f, "{separator}{key}: {value}");
            separator = "; ";
            result
        };
        if let Some(code) = self.code {
            field(f, "driver returned", code)?;
        }
        if let Some(backend) = self.backend {
            field(f, "backend", backend)?;
        }
        if let Some(device) = self.device {
            field(f, "device", device)?;
        }
        if let Some(mismatch) = self.mismatch {
            field(f, "exporter", &mismatch.exporter)?;
            field(f, "importer", &mismatch.importer)?;
        }
        for (key, value) in self.context {
            field(f, key, value)?;
        }
        for attempt in self.attempts {
            field(f, "tried", attempt)?;
        }
        if separator == "; " { f.write_str("]") } else { Ok(()) }
    }
}

impl Error {
    /// Creates an error. `operation` is the driver function that failed, else the function of this library. `message`
    /// is a sentence that states the problem and, where possible, the next step.
    #[must_use]
    pub fn new(kind: ErrorKind, operation: &'static str, message: impl Into<String>) -> Self {
        Self(Box::new(Report {
            kind,
            operation,
            backend: None,
            device: None,
            code: None,
            message: message.into(),
            attempts: Vec::new(),
            mismatch: None,
            context: Vec::new(),
            source: None,
        }))
    }

    /// Shorthand for an [`ErrorKind::InvalidArgument`].
    #[must_use]
    pub fn invalid(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::InvalidArgument, operation, message)
    }

    /// Shorthand for an [`ErrorKind::Unsupported`].
    #[must_use]
    pub fn unsupported(operation: &'static str, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Unsupported, operation, message)
    }

    /// Adds the status code that the driver returned.
    #[must_use]
    pub fn with_code(mut self, value: i64, name: Option<String>) -> Self {
        self.0.code = Some(DriverCode { value, name });
        self
    }

    /// Clones everything but the message and the source.
    pub(crate) fn with_message(&self, message: impl Into<String>) -> Self {
        let Report { kind, operation, backend, device, code, message: _, attempts, mismatch, context, source: _ } =
            &*self.0;
        Self(Box::new(Report {
            kind: *kind,
            operation,
            backend: backend.clone(),
            device: device.clone(),
            code: code.clone(),
            message: message.into(),
            attempts: attempts.clone(),
            mismatch: mismatch.clone(),
            context: context.clone(),
            source: None,
        }))
    }

    /// Clones everything but the source.
    pub(crate) fn duplicate(&self) -> Self {
        self.with_message(self.message())
    }

    /// Adds the backend's name, unless one is set already.
    #[must_use]
    pub fn with_backend(mut self, backend: &str) -> Self {
        self.0.backend.get_or_insert_with(|| backend.to_owned());
        self
    }

    /// Adds the device, unless one is set already.
    #[must_use]
    pub fn with_device(mut self, device: &DeviceIdentity) -> Self {
        self.0.device.get_or_insert_with(|| device.to_string());
        self
    }

    /// Adds a named value: a size in bytes, a handle kind, an offset.
    #[must_use]
    pub fn with_context(mut self, key: &'static str, value: impl fmt::Display) -> Self {
        self.0.context.push((key, value.to_string()));
        self
    }

    /// Adds the list of attempts.
    #[must_use]
    pub fn with_attempts(mut self, attempts: impl IntoIterator<Item = LoadAttempt>) -> Self {
        self.0.attempts.extend(attempts);
        self
    }

    /// Adds the two identities of a [`ErrorKind::DeviceMismatch`].
    #[must_use]
    pub fn with_mismatch(mut self, exporter: DeviceIdentity, importer: DeviceIdentity) -> Self {
        self.0.mismatch = Some(Mismatch { exporter, importer });
        self
    }

    /// Adds the underlying error.
    #[must_use]
    pub fn with_source(mut self, source: impl Into<Source>) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// Category of the failure.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Function that failed: the driver function where a driver call was involved.
    #[must_use]
    pub fn operation(&self) -> &'static str {
        self.0.operation
    }

    /// The backend involved, if any.
    #[must_use]
    pub fn backend(&self) -> Option<&str> {
        self.0.backend.as_deref()
    }

    /// The device involved, if any, as [`DeviceIdentity`] prints it.
    #[must_use]
    pub fn device(&self) -> Option<&str> {
        self.0.device.as_deref()
    }

    /// The status code that the driver returned, if it was called.
    #[must_use]
    pub fn code(&self) -> Option<&DriverCode> {
        self.0.code.as_ref()
    }

    /// Message without the surrounding context.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }

    /// Library paths or backends tried, each with the reason why it was not used.
    #[must_use]
    pub fn attempts(&self) -> &[LoadAttempt] {
        &self.0.attempts
    }

    /// Both identities of a [`ErrorKind::DeviceMismatch`].
    #[must_use]
    pub fn mismatch(&self) -> Option<&Mismatch> {
        self.0.mismatch.as_ref()
    }

    /// Named values of the error, in the order in which they were added.
    #[must_use]
    pub fn context(&self) -> &[(&'static str, String)] {
        &self.0.context
    }
}

/// A failed import. Returns the request, with the caller's handle open and usable.
///
/// Converts into [`Error`] with `?`, which drops the request and so closes the handle.
#[derive(thiserror::Error)]
#[error(transparent)]
pub struct ImportError<R: fmt::Debug>(Box<FailedImport<R>>);

impl<R: fmt::Debug> fmt::Debug for ImportError<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if f.alternate() { fmt::Debug::fmt(&self.0, f) } else { fmt::Debug::fmt(&self.0.error, f) }
    }
}

#[derive(Debug)]
struct FailedImport<R> {
    error: Error,
    request: R,
}

// Transparent: displays the error itself instead of adding a link to the source chain.
impl<R: fmt::Debug> fmt::Display for FailedImport<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.error, f)
    }
}

impl<R: fmt::Debug> std::error::Error for FailedImport<R> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error.source()
    }
}

impl<R: fmt::Debug> ImportError<R> {
    /// A failed import of `request`.
    #[must_use]
    pub fn new(error: Error, request: R) -> Self {
        Self(Box::new(FailedImport { error, request }))
    }

    /// Reason of the failure.
    #[must_use]
    pub fn error(&self) -> &Error {
        &self.0.error
    }

    /// Shorthand for `self.error().kind()`.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.error.kind()
    }

    /// Returns the request unchanged, for another attempt.
    #[must_use]
    pub fn into_request(self) -> R {
        self.0.request
    }

    /// Splits into error and request.
    #[must_use]
    pub fn into_parts(self) -> (Error, R) {
        let FailedImport { error, request } = *self.0;
        (error, request)
    }
}

impl<R: fmt::Debug> From<ImportError<R>> for Error {
    fn from(failure: ImportError<R>) -> Self {
        failure.0.error
    }
}

/// Replaces names inside `message`, in the order of `names`, where they are whole words: `Stream::wait` does not occur in
/// `Stream::wait_timeline`. An end of a name that is no letter, digit or `_` has no such condition: `Stream::` is a prefix.
#[doc(hidden)]
#[must_use]
pub fn with_names(message: &str, names: &[(&str, &str)]) -> String {
    names.iter().fold(message.to_owned(), |text, (name, other)| match text.contains(name) {
        true => with_name(&text, name, other),
        false => text,
    })
}

fn with_name(text: &str, name: &str, other: &str) -> String {
    let is_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let (mut result, mut rest) = (String::with_capacity(text.len()), text);
    for (at, _) in text.match_indices(name) {
        let (before, after) = (&text[..at], &text[at + name.len()..]);
        let starts = !(is_word(name.chars().next()) && is_word(before.chars().next_back()));
        if starts && !(is_word(name.chars().next_back()) && is_word(after.chars().next())) {
            result.push_str(&before[text.len() - rest.len()..]);
            result.push_str(other);
            rest = after;
        }
    }
    result + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_operation_code_and_values() {
        let error = Error::new(ErrorKind::ImportRejected, "cuImportExternalMemory", "the driver rejected the handle")
            .with_code(999, Some("CUDA_ERROR_UNKNOWN".into()))
            .with_backend("cuda")
            .with_context("size", "4096 bytes");
        assert_eq!(
            error.to_string(),
            "cuImportExternalMemory: import rejected: the driver rejected the handle \
             [driver returned: CUDA_ERROR_UNKNOWN (999); backend: cuda; size: 4096 bytes]"
        );
    }

    #[test]
    fn debug_is_the_message_and_its_alternate_form_has_the_fields() {
        let error = ImportError::new(Error::invalid("op", "size is 0").with_context("size", 0), 17);
        assert_eq!(format!("{error:?}"), "op: invalid argument: size is 0 [size: 0]");
        assert_eq!(error.to_string(), format!("{error:?}"));
        let fields = format!("{error:#?}");
        assert!(fields.contains("request: 17") && fields.contains("operation: \"op\""), "{fields}");
    }

    #[test]
    fn an_error_without_values_has_no_brackets() {
        assert_eq!(Error::invalid("op", "size is 0").to_string(), "op: invalid argument: size is 0");
    }

    #[test]
    fn the_source_is_reachable() {
        let error = Error::new(ErrorKind::System, "mmap", "no").with_source(std::io::Error::from_raw_os_error(12));
        assert_eq!(format!("{error:?}").lines().count(), 2, "{error:?}");
        let source = std::error::Error::source(&error).expect("the source was recorded");
        assert_eq!(source.downcast_ref::<std::io::Error>().and_then(std::io::Error::raw_os_error), Some(12));
    }

    #[test]
    fn the_first_backend_and_device_are_kept() {
        let error = Error::invalid("op", "x").with_backend("inner").with_backend("outer");
        assert_eq!(error.backend(), Some("inner"));
    }

    #[test]
    fn names_are_replaced_as_whole_words() {
        let names = [("Stream::wait", "wait"), ("`Timeline`", "a timeline"), ("Device::", "device_")];
        for (message, expected) in [
            ("", ""),
            ("Stream::wait: failed", "wait: failed"),
            ("call Stream::wait, then Stream::wait", "call wait, then wait"),
            ("Stream::wait_timeline: Stream::wait", "Stream::wait_timeline: wait"),
            ("ExternalStream::wait", "ExternalStream::wait"),
            ("of `Timeline`s, \u{e9}", "of a timelines, \u{e9}"),
            ("Device::open, BackendDevice::open", "device_open, BackendDevice::open"),
        ] {
            assert_eq!(with_names(message, &names), expected);
        }
    }
}
