//! Joining the reports of shards to that of one run.

use super::{CaseReport, JoinedShard, Merged, NotRead, Report, Shard, Sourced, Tool, summarize};
use crate::sha256;

/// Replaces the shards of each run by one report, if all are present and no case is lost or doubled. Otherwise the shards
/// stay, and the reason is added to the files that were not read.
pub(super) fn join(merged: &mut Merged) {
    let mut runs: Vec<Vec<Sourced<Report>>> = Vec::new();
    let mut joined = Vec::new();
    for sourced in std::mem::take(&mut merged.reports) {
        match runs.iter_mut().find(|run| run.first().is_some_and(|first| is_same(&first.report, &sourced.report))) {
            Some(run) => run.push(sourced),
            None => runs.push(vec![sourced]),
        }
    }
    for mut run in runs {
        if run.iter().any(|sourced| sourced.report.shard.is_none()) {
            joined.append(&mut run);
            continue;
        }
        run.sort_by_key(|sourced| sourced.report.shard.as_ref().map(|shard| shard.index));
        let source = run.iter().map(|sourced| sourced.source.as_str()).collect::<Vec<_>>().join(" + ");
        match one(&run) {
            Ok(report) => joined.push(Sourced { source, report }),
            Err(reason) => {
                eprintln!("conformance: {source}: {reason}");
                merged.not_read.push(NotRead { source, reason });
                joined.append(&mut run);
            }
        }
    }
    merged.reports = joined;
}

/// `true` for shards of one run. Reports without a shard are runs of their own.
fn is_same(a: &Report, b: &Report) -> bool {
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
    if shards.iter().any(|other| other.durations_sha256 != shard.durations_sha256) {
        return Err("the shards were made with different durations; use the same --durations for all".into());
    }
    let numbers: Vec<usize> = shards.iter().map(|shard| shard.index).collect();
    let count = |number| numbers.iter().filter(|known| **known == number).count();
    let list = |wanted: fn(usize) -> bool| {
        let all: Vec<String> = (1..=shard.count).filter(|n| wanted(count(*n))).map(|n| n.to_string()).collect();
        (!all.is_empty()).then(|| all.join(", "))
    };
    if let Some(missing) = list(|count| count == 0) {
        return Err(format!("of {} shards these are missing: {missing}", shard.count));
    }
    if let Some(doubled) = list(|count| count > 1) {
        return Err(format!("of {} shards these are there more than once: {doubled}", shard.count));
    }
    let results = in_order(run, shard)?;
    let total_us = run.iter().map(|sourced| sourced.report.duration_us).max().unwrap_or_default();
    Ok(Report {
        tool: Tool::this(),
        started: run.iter().filter_map(|sourced| sourced.report.started).min(),
        shard: None,
        shards: run.iter().zip(&numbers).map(|(sourced, index)| about(&sourced.report, *index)).collect(),
        stopped: run.iter().find_map(|sourced| sourced.report.stopped.clone()),
        resumed: Vec::new(),
        summary: summarize(&results),
        results,
        duration_us: total_us,
        ..first.clone()
    })
}

fn about(report: &Report, index: usize) -> JoinedShard {
    JoinedShard { index, device: report.device.clone(), started: report.started, duration_us: report.duration_us }
}

/// The results in the order of the whole run. Fails if a case is missing, doubled or unexpected.
fn in_order(run: &[Sourced<Report>], shard: &Shard) -> Result<Vec<CaseReport>, String> {
    let mut all: Vec<Option<CaseReport>> = vec![None; shard.total];
    for Sourced { source, report } in run {
        let positions = report.shard.iter().flat_map(|shard| &shard.positions);
        if positions.clone().count() != report.results.len() {
            return Err(format!("{source} has {} results for another number of cases", report.results.len()));
        }
        for (position, case) in positions.zip(&report.results) {
            match all.get_mut(*position) {
                Some(place @ None) => *place = Some(case.clone()),
                Some(Some(_)) => return Err(format!("{} is in more than one shard", case.name())),
                None => return Err(format!("{source} has a case at {position} of {}", shard.total)),
            }
        }
    }
    let found: Vec<CaseReport> = all.into_iter().flatten().collect();
    if found.len() != shard.total {
        return Err(format!("{} of {} cases are in no shard", shard.total - found.len(), shard.total));
    }
    if sha256::of_lines(found.iter().map(CaseReport::name)) != shard.cases_sha256 {
        return Err("the cases of the shards are not those that were distributed".into());
    }
    Ok(found)
}
