//! Joining the reports of shards to that of one run.

use std::collections::BTreeMap;

use super::{CaseReport, Cause, JoinedShard, Merged, NotRead, Report, Shard, Sourced, Stopped, summarize};
use crate::output::{complain, one_line};
use crate::sha256;

/// Replaces the shards of each run by one report, if all are present and no case is lost or doubled. Otherwise the shards
/// stay, and the reason is added to the files that were not read.
pub(crate) fn join(merged: &mut Merged) {
    let mut runs: Vec<Vec<Sourced<Report>>> = Vec::new();
    let mut joined = Vec::new();
    for sourced in std::mem::take(&mut merged.reports) {
        match runs.iter_mut().find(|run| begins(run, |first| is_same(first, &sourced.report))) {
            Some(run) => run.push(sourced),
            None => runs.push(vec![sourced]),
        }
    }
    // A missing shard may be there, of another build or without the hash of its command.
    let others: Vec<&str> = (runs.iter().map(|run| {
        let of_others = |other: &Vec<Sourced<Report>>| {
            let one = run.first().map(|first| &first.report);
            one.is_some_and(|one| begins(other, |first| has_same_cases(one, first) && !is_same(one, first)))
        };
        if runs.iter().any(of_others) {
            "; shards of the same cases have another --build, command or version"
        } else {
            ""
        }
    }))
    .collect();
    for (mut run, others) in runs.into_iter().zip(others) {
        if run.iter().any(|sourced| sourced.report.shard.is_none()) {
            joined.append(&mut run);
            continue;
        }
        run.sort_by_key(|sourced| sourced.report.shard.as_ref().map(|shard| shard.index));
        let source = run.iter().map(|sourced| sourced.source.as_str()).collect::<Vec<_>>().join(" + ");
        match one(&run) {
            Ok(report) => joined.push(Sourced { source, report }),
            Err(reason) => {
                let reason = format!("{reason}{others}");
                complain(&one_line(&format!("{source}: {reason}")));
                merged.not_read.push(NotRead { source, reason });
                joined.append(&mut run);
            }
        }
    }
    merged.reports = joined;
}

/// `true` if the first report of a run is such.
fn begins(run: &[Sourced<Report>], is_such: impl Fn(&Report) -> bool) -> bool {
    run.first().is_some_and(|first| is_such(&first.report))
}

/// `true` for shards of one run. Reports without a shard are runs of their own.
fn is_same(a: &Report, b: &Report) -> bool {
    let command = |report: &Report| report.host.as_ref().and_then(|host| host.command_sha256.clone());
    has_same_cases(a, b) && (&a.build, &a.tool, command(a)) == (&b.build, &b.tool, command(b))
}

/// `true` for shards of the same cases on the same driver and device.
fn has_same_cases(a: &Report, b: &Report) -> bool {
    let run = |shard: &Shard| (shard.count, shard.total, shard.cases_sha256.clone());
    let (Some(one), Some(other)) = (&a.shard, &b.shard) else { return false };
    run(one) == run(other)
        && (&a.backend.name, &a.backend.driver, &a.device.name) == (&b.backend.name, &b.backend.driver, &b.device.name)
        && (a.seed, a.repeat, &a.cases, &a.emulated) == (b.seed, b.repeat, &b.cases, &b.emulated)
}

/// One report of all shards, which are in order.
fn one(run: &[Sourced<Report>]) -> Result<Report, String> {
    let Some(first) = run.first().map(|sourced| &sourced.report) else { return Err("no shard".into()) };
    let shards: Vec<&Shard> = run.iter().filter_map(|sourced| sourced.report.shard.as_ref()).collect();
    let Some(shard) = shards.first() else { return Err("no shard".into()) };
    // In order.
    let numbers: Vec<usize> = shards.iter().map(|shard| shard.index).collect();
    if let Some(missing) = list((1..=shard.count).filter(|number| numbers.binary_search(number).is_err())) {
        return Err(format!("of {} shards these are missing: {missing}", shard.count));
    }
    let doubled = numbers.chunk_by(|a, b| a == b).filter(|equal| equal.len() > 1).map(|equal| equal[0]);
    if let Some(doubled) = list(doubled) {
        return Err(format!("of {} shards these are there more than once: {doubled}", shard.count));
    }
    let results = in_order(run, shard)?;
    let total_us = run.iter().map(|sourced| sourced.report.duration_us).max().unwrap_or_default();
    let mut resumed: Vec<_> = run.iter().flat_map(|sourced| sourced.report.resumed.iter().copied()).collect();
    resumed.sort_unstable();
    Ok(Report {
        started: run.iter().filter_map(|sourced| sourced.report.started).min(),
        shard: None,
        shards: run.iter().zip(&numbers).map(|(sourced, index)| about(&sourced.report, *index)).collect(),
        stopped: stopped(run),
        resumed,
        summary: summarize(&results),
        results,
        kernel_log: run.iter().flat_map(|sourced| sourced.report.kernel_log.iter().cloned()).collect(),
        duration_us: total_us,
        ..first.clone()
    })
}

/// The first numbers in words; `None` without any. The number of shards in a report may be any.
fn list(mut numbers: impl Iterator<Item = usize>) -> Option<String> {
    /// The most listed numbers.
    const MOST: usize = 20;
    let first: Vec<String> = numbers.by_ref().take(MOST).map(|number| number.to_string()).collect();
    let more = if numbers.next().is_some() { " and more" } else { "" };
    (!first.is_empty()).then(|| first.join(", ") + more)
}

/// The gravest early end of the shards, with the shard's number.
fn stopped(run: &[Sourced<Report>]) -> Option<Stopped> {
    let ends =
        run.iter().filter_map(|Sourced { report, .. }| Some((report.shard.as_ref()?.index, report.stopped.as_ref()?)));
    let gravity = |cause| match cause {
        Cause::GpuLost => 0,
        Cause::MaxFailures => 1,
        Cause::Interrupted => 2,
    };
    ends.min_by_key(|(_, end)| gravity(end.cause))
        .map(|(index, end)| Stopped { cause: end.cause, reason: format!("shard {index}: {}", end.reason) })
}

fn about(report: &Report, index: usize) -> JoinedShard {
    JoinedShard { index, device: report.device.clone(), started: report.started, duration_us: report.duration_us }
}

/// The results in the order of the whole run. Fails if a case is missing, doubled or unexpected.
fn in_order(run: &[Sourced<Report>], shard: &Shard) -> Result<Vec<CaseReport>, String> {
    let mut all = BTreeMap::new();
    for Sourced { report, .. } in run {
        let positions = report.shard.iter().flat_map(|shard| &shard.positions);
        for (position, case) in positions.zip(&report.results) {
            if all.insert(*position, case).is_some() {
                return Err(format!("{} is in more than one shard", case.name()));
            }
        }
    }
    // Each position is below the total.
    if all.len() != shard.total {
        return Err(format!("{} of {} cases are in no shard", shard.total.saturating_sub(all.len()), shard.total));
    }
    let found: Vec<CaseReport> = all.into_values().cloned().collect();
    if sha256::of_lines(found.iter().map(CaseReport::name)) != shard.cases_sha256 {
        return Err("the cases of the shards are not those that were distributed".into());
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_numbers_is_short() {
        assert_eq!((list(std::iter::empty()), list(2..4).as_deref()), (None, Some("2, 3")));
        let long = list(1..=usize::MAX).expect("numbers");
        assert!(long.starts_with("1, 2, ") && long.ends_with("19, 20 and more"), "{long}");
        assert!(list(1..=20).is_some_and(|all| all.ends_with("19, 20")));
    }
}
