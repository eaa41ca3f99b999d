//! Checks of an exercise under a fault, and the objects that remain in the driver after a failed call that frees them.
//! Only these objects are not leaks.

use gpu_interop::{Error, ErrorKind};

use crate::campaign::Defect;
use crate::child::LogEvent;
use crate::exceptions::{Reported, reported_as};
use crate::exercise::Record;
use crate::fault;
use crate::fault::{Answer, EVERY_FUNCTION, Fault, Uses};
use crate::simulator::{Driver, Live, ObjectKind, ResourceSnapshot};

/// A fault, and the observations of an exercise under it.
pub(crate) struct Case<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) fault: &'a Fault,
    /// Calls of its function.
    pub(crate) calls: u64,
    /// The driver's name for the code.
    pub(crate) name: Option<String>,
    /// An exercise without faults.
    pub(crate) clean: &'a Record,
    pub(crate) record: &'a Record,
    pub(crate) logged: &'a [LogEvent],
    pub(crate) before: ResourceSnapshot,
    pub(crate) after: ResourceSnapshot,
}

/// The checks that fail.
pub(crate) fn check(case: &Case<'_>) -> Vec<(Defect, String)> {
    let mut defects = Vec::new();
    let mut defect = |kind, text: String| defects.push((kind, text));
    if !case.fault.is_met_by(case.calls) {
        defect(Defect::NotMet, format!("its function was called {} times only", case.calls));
    }
    for text in &case.record.wrong {
        defect(Defect::Broken, text.clone());
    }
    if case.record.moved && !case.is_lost() && !leaves_context(&case.fault.function) {
        defect(Defect::Broken, "another context or device is current than before".into());
    }
    for (section, error) in &case.record.errors {
        if let Err(text) = case.check_error(section, error) {
            defect(Defect::Untyped, format!("{section}: {text}: {error}"));
        }
    }
    for event in case.logged {
        if let Err(text) = case.check_log_event(event) {
            defect(Defect::Untyped, format!("{text}: {event}"));
        }
    }
    if let Err(text) = case.check_reported() {
        defect(Defect::Hidden, text);
    }
    if let Err(text) = case.check_kept(&case.after) {
        defect(Defect::Leak, text);
    }
    defects
}

impl Case<'_> {
    fn is_lost(&self) -> bool {
        self.fault.function == EVERY_FUNCTION
    }

    fn reported_as(&self) -> Reported {
        reported_as(self.driver.vendor, self.fault)
    }

    /// An error must say which function failed, with which code, and what that means.
    fn check_error(&self, section: &str, error: &Error) -> Result<(), String> {
        let opened = !["load", "open_matching"].contains(&section);
        if opened && error.backend() != Some(self.driver.vendor.backend()) {
            return Err("the error does not name the backend".into());
        }
        match (self.fault.answer, self.reported_as()) {
            (Answer::Code(code), _) if self.is_lost() => match error.code() {
                Some(_) => self.check_code(error.operation(), code, error),
                None => check_refusal(error),
            },
            (Answer::Code(code), Reported::Failure) => {
                self.check_code(fault::documented(&self.fault.function), code, error)
            }
            (Answer::Null, Reported::Failure) => {
                let named = error.operation() == fault::documented(&self.fault.function);
                let said = error.message().contains("reported success but returned");
                if named && said && error.kind() == ErrorKind::Driver && error.code().is_none() {
                    Ok(())
                } else {
                    Err("not reported as success without a result".into())
                }
            }
            // The only candidate does not respond, so no device is the same.
            (Answer::Code(_), Reported::FactsOrFailure) if error.code().is_none() => check_refusal(error),
            (Answer::Code(code), Reported::FactsOrFailure) => {
                self.check_code(fault::documented(&self.fault.function), code, error)
            }
            (_, Reported::Facts | Reported::FactsOrNothing | Reported::FactsOrFailure) => check_refusal(error),
            (_, Reported::Nothing) => Err("there should be no error".into()),
        }
    }

    fn check_code(&self, operation: &str, code: u32, error: &Error) -> Result<(), String> {
        let vendor = self.driver.vendor;
        if error.operation() != operation || !operation.starts_with(vendor.prefix()) {
            return Err(format!("the function is {operation}"));
        }
        let Some(reported) = error.code() else { return Err("there is no code".into()) };
        if reported.value != i64::from(code) || reported.name != self.name {
            return Err(format!("the code is {code}, {:?}", self.name));
        }
        let kind = fault::kind(vendor, operation, code);
        if error.kind() != kind {
            return Err(format!("the kind should be {kind:?}"));
        }
        if !error.to_string().contains(&format!("driver returned: {reported}")) || error.message().is_empty() {
            return Err("the text does not say what the driver answered".into());
        }
        Ok(())
    }

    /// A log event must name the function and the answer, as an error does.
    fn check_log_event(&self, event: &LogEvent) -> Result<(), String> {
        if self.is_lost() && is_pending_event(event) {
            return Ok(());
        }
        if !self.is_lost() {
            if self.reported_as() != Reported::Failure {
                return Err("there should be no report".into());
            }
            if operation(event) != fault::documented(&self.fault.function) {
                return Err("the report is of another function".into());
            }
        }
        let said = match (self.fault.answer, &self.name) {
            (Answer::Code(code), Some(name)) => format!("driver returned: {name} ({code})"),
            (Answer::Code(code), None) => format!("driver returned: code {code}"),
            (Answer::Null, _) => "reported success but returned".into(),
        };
        if event.error.contains(&said) { Ok(()) } else { Err(format!("the report should say `{said}`")) }
    }

    /// A fault must be visible somewhere, and must change no unrelated fact.
    fn check_reported(&self) -> Result<(), String> {
        let failures = self.record.errors.len() + self.logged.len();
        let other: Vec<_> = (self.record.facts.iter())
            .filter(|(name, value)| self.clean.facts.get(*name).is_some_and(|clean| clean != *value))
            .collect();
        let reported = if self.is_lost() { Reported::FactsOrNothing } else { self.reported_as() };
        let unseen = failures == 0 && other.is_empty();
        match reported {
            Reported::Failure if failures == 0 => Err("the failure is not reported".into()),
            Reported::Failure | Reported::Nothing if !other.is_empty() => Err(format!("other facts: {other:?}")),
            // The devices are listed again to find one; another may be the one that does not respond.
            Reported::FactsOrFailure if unseen && matches!(self.fault.uses, Uses::Nth(2..)) => Ok(()),
            Reported::Facts | Reported::FactsOrFailure if unseen => Err("nothing is seen of it".into()),
            _ if other.iter().any(|(_, value)| !self.is_explained(value)) => {
                Err(format!("facts that do not say why: {other:?}"))
            }
            _ if self.is_lost() && unseen => Err("nothing is seen of a lost device".into()),
            _ => Ok(()),
        }
    }

    /// `true` if a lost capability, or a device that does not respond, names the driver's answer to the query. An
    /// unknown attribute is reported in another way.
    fn is_explained(&self, value: &str) -> bool {
        let Answer::Code(code) = self.fault.answer else { return true };
        let answered = match &self.name {
            Some(name) => format!("{name} ({code})"),
            None => format!("code {code}"),
        };
        if self.reported_as() == Reported::FactsOrFailure {
            return value.contains(&format!("driver returned: {answered}"));
        }
        let asked = self.fault.function.ends_with("DeviceGetAttribute") && value.starts_with("unsupported");
        let said = match code {
            fault::INVALID_VALUE => "install a newer one".into(),
            _ => format!("the driver returned {answered}"),
        };
        !asked || value.contains(&said)
    }

    /// Everything is freed except the objects whose call of freeing failed, and each of those was reported.
    pub(crate) fn check_kept(&self, after: &ResourceSnapshot) -> Result<(), String> {
        let kept = after.live.since(&self.before.live);
        let mut said = reported_objects(self.logged);
        said.add_all(&self.record.kept);
        if self.is_lost() && self.logged.iter().any(is_pending_event) {
            (said.of(ObjectKind::Allocations)..kept.of(ObjectKind::Allocations))
                .for_each(|_| said.add(ObjectKind::Allocations));
        }
        if kept != said {
            return Err(format!("alive are {kept:?}, reported was {said:?}"));
        }
        self.check_allowed(&kept)?;
        self.check_files(after, &kept)
    }

    /// The remaining objects must be exactly those that the failed calls were to free, and those that no call can
    /// reach.
    fn check_allowed(&self, kept: &Live) -> Result<(), String> {
        let (function, every) = (self.fault.function.as_str(), self.fault.uses == Uses::Every);
        // A graph consists of two objects.
        let freed_together = kept.total() - kept.of(ObjectKind::Graphs) / 2;
        if self.is_lost() || (enters_context(function) && (every || freed_together <= 1)) {
            return Ok(());
        }
        let sorts = remaining_after(function);
        let failed = match sorts {
            [] => 0,
            _ if every => self.calls,
            _ => 1,
        };
        let of_these: u64 = sorts.iter().map(|kind| kept.of(*kind)).sum();
        if kept.total() == failed && of_these == failed {
            Ok(())
        } else {
            Err(format!("alive are {kept:?}, which should be {failed} of {sorts:?}"))
        }
    }

    /// Open descriptors and mapped files must be those of the remaining objects.
    fn check_files(&self, after: &ResourceSnapshot, kept: &Live) -> Result<(), String> {
        let descriptors = kept.of(ObjectKind::Descriptors);
        let grown = |now: usize, before: usize| now as i128 - before as i128;
        let opened = grown(after.descriptors, self.before.descriptors);
        if opened != i128::from(descriptors) {
            return Err(format!("{opened} more descriptors are open"));
        }
        // Not reservations: they are unmapped first, unless that fails.
        let returned = self.record.errors.iter().map(|(_, error)| error.operation());
        let failed = returned.chain(self.logged.iter().map(operation));
        let unmapping = failed.filter(|operation| operation.ends_with("MemUnmap")).count() as u64;
        let in_files = [ObjectKind::Imports, ObjectKind::Mappings, ObjectKind::Arrays, ObjectKind::Semaphores];
        let most =
            in_files.iter().map(|kind| kept.of(*kind)).sum::<u64>() + unmapping.min(kept.of(ObjectKind::Reservations));
        let mapped = grown(after.mappings, self.before.mappings);
        let bytes = grown(after.bytes, self.before.bytes);
        if mapped > i128::from(most) || (most == 0 && bytes != 0) {
            return Err(format!("{mapped} more files are mapped, {bytes} bytes"));
        }
        Ok(())
    }
}

/// An operation that a fact excludes must be rejected before the driver is called.
pub(crate) fn check_refusal(error: &Error) -> Result<(), String> {
    let kinds = [ErrorKind::NoDevice, ErrorKind::Unsupported, ErrorKind::DriverTooOld, ErrorKind::SymbolMissing];
    let counted = error.operation().ends_with("DeviceGet");
    if error.code().is_none() && kinds.contains(&error.kind()) && (counted || error.operation().contains("::")) {
        Ok(())
    } else {
        Err("not a refusal that follows from other facts".into())
    }
}

/// The objects that remain when a function of CUDA or HIP fails. They must not be used again: a driver that reports a
/// failure may have freed them.
const FREEING: &[(&str, &str, &[ObjectKind])] = &[
    ("cuDestroyExternalMemory", "hipDestroyExternalMemory", &[ObjectKind::Imports]),
    // Also HIP's signal memory.
    ("cuMemFree_v2", "hipFree", &[ObjectKind::Mappings, ObjectKind::Allocations]),
    ("cuMemHostUnregister", "hipHostUnregister", &[ObjectKind::Allocations]),
    ("cuMipmappedArrayDestroy", "hipMipmappedArrayDestroy", &[ObjectKind::Arrays]),
    ("cuSurfObjectDestroy", "hipDestroySurfaceObject", &[ObjectKind::Surfaces]),
    ("cuTexObjectDestroy", "hipTexObjectDestroy", &[ObjectKind::Textures]),
    ("cuDestroyExternalSemaphore", "hipDestroyExternalSemaphore", &[ObjectKind::Semaphores]),
    ("cuStreamDestroy_v2", "hipStreamDestroy", &[ObjectKind::Streams]),
    ("cuEventDestroy_v2", "hipEventDestroy", &[ObjectKind::Events]),
    ("cuModuleUnload", "hipModuleUnload", &[ObjectKind::Modules]),
    ("cuMemRelease", "hipMemRelease", &[ObjectKind::Descriptors]),
    // The addresses of a mapping that the driver may keep are not freed.
    ("cuMemUnmap", "hipMemUnmap", &[ObjectKind::Reservations]),
    ("cuMemAddressFree", "hipMemAddressFree", &[ObjectKind::Reservations]),
    ("cuGraphExecDestroy", "hipGraphExecDestroy", &[ObjectKind::Graphs]),
    ("cuGraphDestroy", "hipGraphDestroy", &[ObjectKind::Graphs]),
    ("cuDevicePrimaryCtxRelease_v2", "", &[ObjectKind::Contexts]),
];

/// Functions that make a device current, or query whether HIP 6 still uses addresses. If one fails, the call that it
/// prepares is omitted, and an object to be freed remains.
const ENTERING: &[&str] =
    &["cuCtxPushCurrent_v2", "hipGetDevice", "hipSetDevice", "hipStreamCreateWithFlags", "hipLaunchHostFunc"];

/// The functions that restore the current context or device; none can replace them.
const LEAVING: &[&str] = &["cuCtxPopCurrent_v2", "hipSetDevice"];

/// The kinds of which each failed call of this function leaves one object; empty if it frees nothing.
pub(crate) fn remaining_after(function: &str) -> &'static [ObjectKind] {
    FREEING.iter().find(|(cuda, hip, _)| [cuda, hip].contains(&&function)).map_or(&[], |(.., sorts)| *sorts)
}

/// `true` if a failed call of this function may prevent another call of freeing.
pub(crate) fn enters_context(function: &str) -> bool {
    ENTERING.contains(&function)
}

/// The remaining object of exportable memory, by the documented name of the failed function. The address range and the
/// memory are freed one by one. A device that cannot be made current retries when it is closed.
pub(crate) fn object_of_allocation(operation: &str) -> Option<ObjectKind> {
    [ObjectKind::Descriptors, ObjectKind::Reservations].into_iter().find(|kind| remaining_after(operation) == [*kind])
}

/// `true` if this reports a lost device that was closed while a timeline bridge waited for it, or while words were in
/// use: the words remain, because streams might still write them.
pub(crate) fn is_pending_event(event: &LogEvent) -> bool {
    event.message == "streams may still write to signal memory of a closed device; it is leaked"
        || event.message == "work is still pending on a closed device; its objects are leaked" && event.resource == "0"
}

/// `true` if a failed call of this function may leave the current context or device changed.
pub(crate) fn leaves_context(function: &str) -> bool {
    LEAVING.contains(&function)
}

/// The objects that log events report as not freed.
pub(crate) fn reported_objects(logged: &[LogEvent]) -> Live {
    let mut live = Live::default();
    for event in logged {
        let Some(kind) = object_of(event) else { continue };
        live.add(kind);
        // The executable graph and its template; freeing neither was tried.
        if kind == ObjectKind::Graphs && !remaining_after(operation(event)).contains(&kind) {
            live.add(kind);
        }
    }
    live
}

fn object_of(event: &LogEvent) -> Option<ObjectKind> {
    match event.message.as_str() {
        "freeing a driver object failed; it is leaked" => resource(event),
        "freeing a mapping failed; it is leaked" => Some(ObjectKind::Mappings),
        "freeing device memory failed; it is leaked" => object_of_allocation(operation(event)),
        "destroying the captured graph of an executable graph failed" => Some(ObjectKind::Graphs),
        "ending a discarded capture failed" => {
            remaining_after(operation(event)).contains(&ObjectKind::Graphs).then_some(ObjectKind::Graphs)
        }
        "reserved addresses of a closed device are leaked" => Some(ObjectKind::Reservations),
        "destroying a discarded graph failed" => Some(ObjectKind::Graphs),
        "destroying an event failed" => Some(ObjectKind::Events),
        "destroying a stream failed; it is leaked" => Some(ObjectKind::Streams),
        "freeing the source buffer of fills failed; it is leaked" => Some(ObjectKind::Allocations),
        "unpinning memory failed; it is leaked" => Some(ObjectKind::Allocations),
        "releasing the primary context failed" => Some(ObjectKind::Contexts),
        "freeing the sentinel failed; it is leaked" => Some(ObjectKind::Allocations),
        _ => None,
    }
}

/// The failed function.
pub(crate) fn operation(event: &LogEvent) -> &str {
    event.error.split(':').next().unwrap_or_default()
}

/// The kind of a driver object, from its printed form.
fn resource(event: &LogEvent) -> Option<ObjectKind> {
    let text = event.resource.strip_prefix("Some(").unwrap_or(&event.resource);
    let name: String = text.chars().take_while(char::is_ascii_alphanumeric).collect();
    Some(match name.as_str() {
        "Memory" => ObjectKind::Imports,
        "Buffer" => ObjectKind::Mappings,
        "MipmappedArray" => ObjectKind::Arrays,
        "Surface" => ObjectKind::Surfaces,
        "Texture" => ObjectKind::Textures,
        "Semaphore" => ObjectKind::Semaphores,
        "Module" => ObjectKind::Modules,
        "Event" => ObjectKind::Events,
        "Stream" | "Recorder" => ObjectKind::Streams,
        "Graph" => ObjectKind::Graphs,
        "SignalMemory" => ObjectKind::Allocations,
        "Allocation" => return object_of_allocation(operation(event)),
        _ => panic!("an object of an unknown kind: {event}"),
    })
}
