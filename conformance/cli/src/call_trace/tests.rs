use super::*;

fn begins(recording: &mut Recording, call: u64) {
    let arguments = format!("{call}, {}", "0x7fffffffffff, ".repeat(64).chars().take(MAX_TEXT).collect::<String>());
    recording.begins(Fields { call, function: "f".repeat(75), arguments, ..Fields::default() });
}

fn returns(recording: &mut Recording, call: u64) {
    recording.returns(Fields { call, made: "0x7fffffffffff".into(), nanoseconds: u64::MAX, ..Fields::default() }, 700);
}

/// A recording of this test only; [`RECORDING`] is shared by the process.
fn new() -> Recording {
    Recording::new(CallFile::new().expect("a file"))
}

#[test]
fn the_newest_are_kept_and_the_rest_is_counted() {
    let mut recording = new();
    for call in 0..(SLOTS as u64) + 50 {
        begins(&mut recording, call);
        returns(&mut recording, call);
    }
    let trace = recording.file.trace(0).expect("readable");
    assert_eq!((trace.left_out, trace.newest.len()), (50, SLOTS));
    assert!(trace.newest.iter().map(|call| call.number).eq(51..=250));
    assert!(trace.newest.iter().all(|call| call.returned.as_ref().is_some_and(|returned| returned.code == 700)));
}

#[test]
fn a_call_that_runs_stays_however_many_come_after_it() {
    let mut recording = new();
    begins(&mut recording, 7);
    for call in 100..1100 {
        begins(&mut recording, call);
        returns(&mut recording, call);
    }
    let trace = recording.file.trace(0).expect("readable");
    assert_eq!((trace.left_out, trace.newest.len()), (1001 - SLOTS as u64, SLOTS));
    let running: Vec<u64> =
        trace.newest.iter().filter(|call| call.returned.is_none()).map(|call| call.number).collect();
    assert_eq!(running, [1]);
    // More calls run at once than the file has slots.
    for call in 2000..2500 {
        begins(&mut recording, call);
    }
    let trace = recording.file.trace(0).expect("readable");
    assert!(trace.newest.iter().all(|call| call.returned.is_none()) && trace.newest.len() == SLOTS);
}

#[test]
fn what_makes_a_device_current_takes_no_place_unless_it_fails() {
    let mut recording = new();
    let fields = |call| Fields { call, function: CONTEXT_SWITCHES[0].into(), ..Fields::default() };
    for call in 0..1000 {
        recording.begins(fields(2 * call));
        recording.returns(fields(2 * call), 0);
        begins(&mut recording, 2 * call + 1);
        returns(&mut recording, 2 * call + 1);
    }
    recording.begins(fields(3000));
    recording.returns(fields(3000), 4);
    recording.begins(fields(3001));
    let trace = recording.file.trace(0).expect("readable");
    assert_eq!((trace.left_out, trace.newest.len()), (2002 - SLOTS as u64, SLOTS));
    let numbers = (1605..2000).step_by(2).map(|number| number + 1).chain([2001, 2002]);
    assert!(trace.newest.iter().map(|call| call.number).eq(numbers), "{trace:?}");
    assert!(trace.newest[SLOTS - 1].returned.is_none());
}

#[test]
fn calls_are_those_of_one_scenario_and_what_comes_after() {
    let mut recording = new();
    for (scenario, call) in [(0, 1), (0, 2), (1, 3), (2, 4)] {
        if scenario > recording.scenario {
            (recording.scenario, recording.before) = (scenario, recording.count);
        }
        begins(&mut recording, call);
    }
    let numbers = |scenario| {
        let trace = recording.file.trace(scenario).expect("readable");
        assert_eq!(trace.left_out, 0);
        trace.newest.iter().map(|call| call.number).collect::<Vec<_>>()
    };
    assert_eq!([0, 1, 2, 3].map(numbers), [vec![1, 2, 3, 4], vec![3, 4], vec![4], vec![]]);
}
