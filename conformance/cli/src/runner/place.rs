//! A run's machine and cases, as expectations match them.

use gpu_interop_conformance::{ExporterName, ExporterReport, Machine, Place, Version};

use super::case::Case;
use crate::report::{Emulated, Environment};

/// The exporter's name in expectations for scenarios without one.
pub(super) const NO_EXPORTER: &str = "none";

/// The known driver versions of a run.
pub(super) struct Drivers {
    backend: Option<Version>,
    exporters: Vec<(ExporterName, Option<Version>)>,
}

impl Drivers {
    pub(super) fn of(environment: &Environment) -> Self {
        let version = |report: &ExporterReport| {
            (report.name, report.available.as_ref().and_then(|found| Version::of_driver(&found.driver)))
        };
        let exporters = environment.exporters.iter().map(version).collect();
        // The release of an emulated runtime is more precise than the backend's description.
        let release = environment.emulated.as_ref().and_then(Emulated::version).and_then(Version::of_driver);
        Self { backend: release.or_else(|| Version::of_driver(&environment.backend.driver)), exporters }
    }

    pub(super) fn machine<'a>(&'a self, environment: &'a Environment) -> Machine<'a> {
        Machine {
            backend: &environment.backend.name,
            driver: self.backend.as_ref(),
            emulated: environment.emulated.is_some(),
            device: &environment.device.name,
            os: std::env::consts::OS,
        }
    }

    pub(super) fn place<'a>(&'a self, environment: &'a Environment, case: &Case<'a>) -> Place<'a> {
        let exporter = self.exporters.iter().find(|(name, _)| Some(*name) == case.exporter);
        Place {
            machine: self.machine(environment),
            scenario: case.scenario,
            exporter: case.exporter.map_or(NO_EXPORTER, ExporterName::name),
            exporter_driver: exporter.and_then(|(_, version)| version.as_ref()),
        }
    }
}
