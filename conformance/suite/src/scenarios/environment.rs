//! Devices visible to a process with another value of the visibility variable.

use gpu_interop::{DeviceIdentity, ErrorKind};

use crate::backend_under_test::DriverApi;
use crate::context::Context;
use crate::outcome::{Stop, Verdict};
use crate::process::discover;
use crate::scenario::scenarios;
use crate::{ensure, ensure_eq};

scenarios! {
    all need [driver VisibleDevices];
    "environment.visible_devices", None,
        "A process that sees each device alone, and all in reverse order if there are several, finds the same devices.",
        visible_devices;
    "environment.no_visible_device", None,
        "A process that sees no device gets a typed error that names the variable.", no_visible_device;
}

/// The number of devices that are tested separately: loading a driver takes half a second.
const ALONE: usize = 4;

/// A vendor's environment variable that selects the visible devices.
struct Visibility {
    variable: &'static str,
    /// The variable that errors name; the vendor may read another one, too.
    named: &'static str,
    /// The value that selects each visible device.
    entries: Vec<String>,
    /// Values that hide all devices.
    hidden: &'static [&'static str],
}

impl Visibility {
    fn of(context: &Context, devices: usize) -> Verdict<Self> {
        // AMD's runtime treats an empty variable as not set.
        let (named, variables, hidden): (_, &[&'static str], &'static [&'static str]) = match context.driver_api()? {
            DriverApi::Cuda => ("CUDA_VISIBLE_DEVICES", &["CUDA_VISIBLE_DEVICES"], &["-1", ""]),
            DriverApi::Hip => ("HIP_VISIBLE_DEVICES", &["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"], &["-1"]),
        };
        let set = |name: &&&'static str| std::env::var(**name).is_ok_and(|value| !value.is_empty());
        let entries = match variables.iter().find(set) {
            // The visible devices are a subset, under the caller's names.
            Some(name) => std::env::var(name).unwrap_or_default().split(',').map(|entry| entry.trim().into()).collect(),
            None => (0..devices).map(|ordinal| ordinal.to_string()).collect::<Vec<String>>(),
        };
        let variable = variables.iter().find(set).copied().unwrap_or(named);
        let entries: Vec<String> = entries.into_iter().take(devices).collect();
        ensure_eq!(entries.len(), devices, "the devices that {variable} shows");
        Ok(Self { variable, named, entries, hidden })
    }
}

fn visible_devices(context: &Context) -> Verdict {
    let here = context.backend().devices()?;
    let visibility = Visibility::of(context, here.len())?;
    let seen = |order: &[usize]| -> Verdict {
        let value = order.iter().map(|ordinal| visibility.entries[*ordinal].as_str()).collect::<Vec<_>>().join(",");
        let found = discover(context.backend_name(), 0, &[(visibility.variable, &value)])?;
        let expected: Vec<&DeviceIdentity> = order.iter().map(|ordinal| &here[*ordinal]).collect();
        let what = format!("with {}={value}", visibility.variable);
        ensure_eq!(found.devices.iter().collect::<Vec<_>>(), expected, "the devices {what}");
        ensure_eq!(&found.device, expected[0], "the device that is opened {what}");
        if expected[0] == context.device().identity() {
            ensure_eq!(&found.capabilities, context.device().capabilities(), "the capabilities {what}");
        }
        Ok(())
    };
    for ordinal in 0..here.len().min(ALONE) {
        seen(&[ordinal])?;
    }
    if here.len() > ALONE {
        context.leave_out(format!("devices {ALONE} to {} alone", here.len() - 1));
    }
    if here.len() == 1 {
        context.leave_out("another order: the backend lists one device");
        return Ok(());
    }
    let reversed: Vec<usize> = (0..here.len()).rev().collect();
    seen(&reversed)
}

fn no_visible_device(context: &Context) -> Verdict {
    let visibility = Visibility::of(context, context.backend().devices()?.len())?;
    for hidden in visibility.hidden {
        let what = format!("with {}=`{hidden}`", visibility.variable);
        let found = discover(context.backend_name(), 0, &[(visibility.variable, hidden)]);
        let reason = match found {
            Ok(found) => return Err(Stop::failed(format!("{what} there are devices: {:?}", found.devices))),
            Err(stop) => stop.reason().to_owned(),
        };
        let kind = ErrorKind::NoDevice.to_string();
        ensure!(reason.contains(&kind), "{what} the error is not of the kind `{kind}`: {reason}");
        ensure!(reason.contains(visibility.named), "{what} the error does not name {}: {reason}", visibility.named);
    }
    Ok(())
}
