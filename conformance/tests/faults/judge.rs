//! What must hold of an exercise under a fault.

use gpu_interop::{Error, ErrorKind};

use crate::code;
use crate::control::{Live, Sort};
use crate::driver::Driver;
use crate::exercise::Record;
use crate::fault::{Answer, EVERY_FUNCTION, Fault, Uses};
use crate::holdings::Holdings;
use crate::kept;
use crate::listed::{Told, told};
use crate::notice::Notice;
use crate::report::Defect;

/// A fault, and all that was seen of it.
pub(crate) struct Case<'a> {
    pub(crate) driver: &'a Driver,
    pub(crate) fault: &'a Fault,
    /// How often its function was called.
    pub(crate) calls: u64,
    /// The driver's name for the code.
    pub(crate) name: Option<String>,
    /// An exercise without faults.
    pub(crate) clean: &'a Record,
    pub(crate) record: &'a Record,
    pub(crate) notices: &'a [Notice],
    pub(crate) before: Holdings,
    pub(crate) after: Holdings,
}

/// What does not hold.
pub(crate) fn judge(case: &Case<'_>) -> Vec<(Defect, String)> {
    let mut defects = Vec::new();
    let mut defect = |kind, text: String| defects.push((kind, text));
    if !case.fault.is_met_by(case.calls) {
        defect(Defect::NotMet, format!("its function was called {} times only", case.calls));
    }
    for text in &case.record.wrong {
        defect(Defect::Broken, text.clone());
    }
    if case.record.moved && !case.is_lost() && !kept::leaves(&case.fault.function) {
        defect(Defect::Broken, "another context or device is current than before".into());
    }
    for (section, error) in &case.record.errors {
        if let Err(text) = case.check_error(section, error) {
            defect(Defect::Untyped, format!("{section}: {text}: {error}"));
        }
    }
    for notice in case.notices {
        if let Err(text) = case.check_notice(notice) {
            defect(Defect::Untyped, format!("{text}: {notice}"));
        }
    }
    if let Err(text) = case.check_told() {
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

    fn told(&self) -> Told {
        told(self.driver.vendor, self.fault)
    }

    /// An error must say which function failed, with which code, and what that means.
    fn check_error(&self, section: &str, error: &Error) -> Result<(), String> {
        let opened = !["load", "open_matching"].contains(&section);
        if opened && error.backend() != Some(self.driver.vendor.backend()) {
            return Err("the error does not name the backend".into());
        }
        match (self.fault.answer, self.told()) {
            (Answer::Code(code), _) if self.is_lost() => match error.code() {
                Some(_) => self.check_code(error.operation(), code, error),
                None => check_refusal(error),
            },
            (Answer::Code(code), Told::Failure) => self.check_code(code::documented(&self.fault.function), code, error),
            (Answer::Null, Told::Failure) => {
                let named = error.operation() == code::documented(&self.fault.function);
                let said = error.message().contains("reported success but gave");
                if named && said && error.kind() == ErrorKind::Driver && error.code().is_none() {
                    Ok(())
                } else {
                    Err("not told as success without a result".into())
                }
            }
            // With the only device that it could be not answering, there is none that is the same.
            (Answer::Code(_), Told::FactsOrFailure) if error.code().is_none() => check_refusal(error),
            (Answer::Code(code), Told::FactsOrFailure) => {
                self.check_code(code::documented(&self.fault.function), code, error)
            }
            (_, Told::Facts | Told::FactsOrNothing | Told::FactsOrFailure) => check_refusal(error),
            (_, Told::Nothing) => Err("there should be no error".into()),
        }
    }

    fn check_code(&self, operation: &str, code: u32, error: &Error) -> Result<(), String> {
        let vendor = self.driver.vendor;
        if error.operation() != operation || !operation.starts_with(vendor.prefix()) {
            return Err(format!("the function is {operation}"));
        }
        let Some(told) = error.code() else { return Err("there is no code".into()) };
        if told.value != i64::from(code) || told.name != self.name {
            return Err(format!("the code is {code}, {:?}", self.name));
        }
        let kind = code::kind(vendor, operation, code);
        if error.kind() != kind {
            return Err(format!("the kind should be {kind:?}"));
        }
        if !error.to_string().contains(&format!("driver answered: {told}")) || error.message().is_empty() {
            return Err("the text does not say what the driver answered".into());
        }
        Ok(())
    }

    /// A report must say as much.
    fn check_notice(&self, notice: &Notice) -> Result<(), String> {
        if self.is_lost() && kept::is_pending(notice) {
            return Ok(());
        }
        if !self.is_lost() {
            if self.told() != Told::Failure {
                return Err("there should be no report".into());
            }
            if kept::operation(notice) != code::documented(&self.fault.function) {
                return Err("the report is of another function".into());
            }
        }
        let said = match (self.fault.answer, &self.name) {
            (Answer::Code(code), Some(name)) => format!("driver answered: {name} ({code})"),
            (Answer::Code(code), None) => format!("driver answered: code {code}"),
            (Answer::Null, _) => "reported success but gave".into(),
        };
        if notice.error.contains(&said) { Ok(()) } else { Err(format!("the report should say `{said}`")) }
    }

    /// A fault must be seen somewhere, and must not change what it has nothing to do with.
    fn check_told(&self) -> Result<(), String> {
        let failures = self.record.errors.len() + self.notices.len();
        let other: Vec<_> = (self.record.facts.iter())
            .filter(|(name, value)| self.clean.facts.get(*name).is_some_and(|clean| clean != *value))
            .collect();
        let told = if self.is_lost() { Told::FactsOrNothing } else { self.told() };
        let unseen = failures == 0 && other.is_empty();
        match told {
            Told::Failure if failures == 0 => Err("the failure is not told".into()),
            Told::Failure | Told::Nothing if !other.is_empty() => Err(format!("other facts: {other:?}")),
            // Listed again, to find one: it may be another that does not answer.
            Told::FactsOrFailure if unseen && matches!(self.fault.uses, Uses::Nth(2..)) => Ok(()),
            Told::Facts | Told::FactsOrFailure if unseen => Err("nothing is seen of it".into()),
            _ if other.iter().any(|(_, value)| !self.is_explained(value)) => {
                Err(format!("facts that do not say why: {other:?}"))
            }
            _ if self.is_lost() && unseen => Err("nothing is seen of a lost device".into()),
            _ => Ok(()),
        }
    }

    /// Whether a capability that is gone, or a device that does not answer, says what the driver answered when it was
    /// asked. That it does not know an attribute is another thing.
    fn is_explained(&self, value: &str) -> bool {
        let Answer::Code(code) = self.fault.answer else { return true };
        let answered = match &self.name {
            Some(name) => format!("{name} ({code})"),
            None => format!("code {code}"),
        };
        if self.told() == Told::FactsOrFailure {
            return value.contains(&format!("driver answered: {answered}"));
        }
        let asked = self.fault.function.ends_with("DeviceGetAttribute") && value.starts_with("unsupported");
        let said = match code {
            code::INVALID_VALUE => "install a newer one".into(),
            _ => format!("the driver returned {answered}"),
        };
        !asked || value.contains(&said)
    }

    /// All is given back, but for what a call of freeing was told not to free; and of that it was said.
    pub(crate) fn check_kept(&self, after: &Holdings) -> Result<(), String> {
        let kept = after.live.since(&self.before.live);
        let mut said = kept::reported(self.notices);
        said.add_all(&self.record.kept);
        if self.is_lost() && self.notices.iter().any(kept::is_pending) {
            (said.of(Sort::Allocations)..kept.of(Sort::Allocations)).for_each(|_| said.add(Sort::Allocations));
        }
        if kept != said {
            return Err(format!("alive are {kept:?}, told was {said:?}"));
        }
        self.check_allowed(&kept)?;
        self.check_files(after, &kept)
    }

    /// What stays must be exactly what the failed calls were to free. What cannot be reached at all stays as well.
    fn check_allowed(&self, kept: &Live) -> Result<(), String> {
        let (function, every) = (self.fault.function.as_str(), self.fault.uses == Uses::Every);
        if self.is_lost() || (kept::enters(function) && (every || kept.total() <= 1)) {
            return Ok(());
        }
        let sorts = kept::by(function);
        let failed = match sorts {
            [] => 0,
            _ if every => self.calls,
            _ => 1,
        };
        let of_these: u64 = sorts.iter().map(|sort| kept.of(*sort)).sum();
        if kept.total() == failed && of_these == failed {
            Ok(())
        } else {
            Err(format!("alive are {kept:?}, which should be {failed} of {sorts:?}"))
        }
    }

    /// Descriptors and mapped files are no more than those of what stays.
    fn check_files(&self, after: &Holdings, kept: &Live) -> Result<(), String> {
        let descriptors = kept.of(Sort::Descriptors);
        let grown = |now: usize, before: usize| now as i128 - before as i128;
        let opened = grown(after.descriptors, self.before.descriptors);
        if opened != i128::from(descriptors) {
            return Err(format!("{opened} more descriptors are open"));
        }
        // Not reservations: they are unmapped first, unless that fails too.
        let returned = self.record.errors.iter().map(|(_, error)| error.operation());
        let failed = returned.chain(self.notices.iter().map(kept::operation));
        let unmapping = failed.filter(|operation| operation.ends_with("MemUnmap")).count() as u64;
        let in_files = [Sort::Imports, Sort::Mappings, Sort::Arrays, Sort::Semaphores];
        let most = in_files.iter().map(|sort| kept.of(*sort)).sum::<u64>() + unmapping.min(kept.of(Sort::Reservations));
        let mapped = grown(after.mappings, self.before.mappings);
        let bytes = grown(after.bytes, self.before.bytes);
        if mapped > i128::from(most) || (most == 0 && bytes != 0) {
            return Err(format!("{mapped} more files are mapped, {bytes} bytes"));
        }
        Ok(())
    }
}

/// What cannot be done because of a fact must be refused before the driver is called.
pub(crate) fn check_refusal(error: &Error) -> Result<(), String> {
    let kinds = [ErrorKind::NoDevice, ErrorKind::Unsupported, ErrorKind::DriverTooOld, ErrorKind::SymbolMissing];
    let counted = error.operation().ends_with("DeviceGet");
    if error.code().is_none() && kinds.contains(&error.kind()) && (counted || error.operation().contains("::")) {
        Ok(())
    } else {
        Err("not a refusal that follows from other facts".into())
    }
}
