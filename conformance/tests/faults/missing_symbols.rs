//! Each function that a backend looks up, hidden: the driver is rejected, or the features that need the function are.

use gpu_interop::ErrorKind;
use libtest_mimic::Failed;

use crate::driver::{DRIVERS, Driver};
use crate::exceptions::{is_replaced, never_called};
use crate::outcome::{self, Outcome};
use crate::symbol;
use gpu_interop_test_support::{PartialLibrary, build};

/// The consequence of a missing function.
#[derive(Debug, PartialEq, Eq)]
enum Loss {
    /// The driver does not load.
    Driver,
    /// Features are missing.
    Feature,
    /// None: another function replaces it, or it is never called.
    Nothing,
}

pub(crate) fn every_symbol() -> Result<(), Failed> {
    for driver in DRIVERS.iter().filter(|driver| driver.without.is_empty()) {
        let library = build(driver.vendor.package())?;
        let whole = outcome::outcome(driver, &library)?;
        let present = symbol::exported(driver.vendor, &library)?;
        let looked_up = symbol::looked_up(driver.vendor, &library, &mut outcome::command(driver, &library)?)?;
        let mut copy = PartialLibrary::of(&library)?;
        let (mut refused, mut degraded, mut defects) = (0, 0, Vec::new());
        for function in looked_up.intersection(&present) {
            copy.hide(function)?;
            let outcome = outcome::outcome(driver, copy.path());
            copy.show(function)?;
            match outcome.and_then(|outcome| Ok(loss(driver, function, &whole, &outcome, copy.path().to_str())?)) {
                Ok(Loss::Driver) => refused += 1,
                Ok(Loss::Feature) => degraded += 1,
                Ok(Loss::Nothing) => {}
                Err(failed) => defects.push(format!("{function}: {}", failed.message().unwrap_or_default())),
            }
        }
        println!("{}: {refused} missing symbols refuse the driver, {degraded} a part of it", driver.name);
        if !defects.is_empty() {
            return Err(defects.join("\n").into());
        }
        if refused < 20 || degraded < 20 {
            return Err("too few symbols".into());
        }
    }
    Ok(())
}

/// The consequence of a missing function. Fails unless each error names it.
fn loss(
    driver: &Driver,
    function: &str,
    whole: &Outcome,
    outcome: &Outcome,
    library: Option<&str>,
) -> Result<Loss, String> {
    if let Some(what) = outcome.wrong.first().or(outcome.left.as_ref()) {
        return Err(what.clone());
    }
    if let [error] = &outcome.errors[..]
        && error.section == "load"
    {
        let named = [Some(function), library].into_iter().flatten().all(|part| error.text.contains(part));
        let right = error.kind == ErrorKind::SymbolMissing && error.operation == "dlsym";
        return if named && right { Ok(Loss::Driver) } else { Err(format!("{error:?}")) };
    }
    for error in &outcome.errors {
        if error.kind != ErrorKind::SymbolMissing || !error.text.contains(function) {
            return Err(format!("{error:?}"));
        }
    }
    let other = |name: &&String| whole.facts.get(*name) != outcome.facts.get(*name);
    let other: Vec<_> = outcome.facts.keys().filter(other).map(|name| (name, &outcome.facts[name])).collect();
    // A bridge replaces semaphores, and names no function that it does not need.
    let is_bridge = |value: &str| value.starts_with("emulated: ");
    if let Some(fact) = other.iter().find(|(_, value)| !value.contains(function) && !is_bridge(value)) {
        return Err(format!("another fact: {fact:?}"));
    }
    let nothing = outcome.errors.is_empty() && other.is_empty();
    let expected = is_replaced(function) || never_called(function).is_some();
    match (nothing, expected) {
        (true, true) => Ok(Loss::Nothing),
        (false, _) => Ok(Loss::Feature),
        (true, false) => Err(format!("nothing is seen of it with {}", driver.name)),
    }
}
