//! Evidence of two hosts, made up, and what is wrong with it.

use proptest::prelude::*;
use rtwire_measure::evidence::{
    ArrivalRecord, ClockBasis, ClockLook, Encoder, End, FORMAT, Header, HostEvidence,
    ListenerEntry, ListenerTotals, Mark, Opened, SentRecord, StampKind, StampRecord, TalkerEntry,
    TalkerTotals, Unkept, read,
};
use rtwire_measure::noise::{NoiseRecord, Stall, StallSource};
use rtwire_measure::report::Machine;

use super::*;

mod card;
mod claims;

/// A file in memory.
type Made = EvidenceFile<HostEvidence>;

const MS: u64 = 1_000_000;
const US: u64 = 1_000;
/// The talkers begin here.
const START: u64 = 10_000 * MS;
const FRAMES: u32 = 1_200;

/// Returns a look at a clock that was set at the start, "forward" or "back" by some time.
fn clock_set(how: &str) -> Mark {
    Mark {
        at_ns: START,
        card_error_ns: None,
        clock: Some(ClockLook {
            offset_ns: None,
            uncertainty_ns: None,
            state: String::new(),
            set: vec![format!("the clock was set {how}")],
        }),
    }
}

const NETWORK: &str = r#"
[network]
name = "two"
[defaults]
link-rate = "1 Gbit/s"
tick-error = "100 us"
[[host]]
name = "A"
latency = "20 us"
[[host]]
name = "B"
[[link]]
ends = ["A", "B"]
[[stream]]
name = "there"
talker = "A"
listeners = ["B"]
payload = "64 B"
interval = "1 ms"
deadline = "2 ms"
"#;

fn plan() -> Plan {
    let network = rtwire_plan::read(NETWORK, "two.toml", &[]).unwrap();
    rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap()
}

fn promise() -> u64 {
    plan().streams[0].promises[0].delay_ns.unwrap()
}

fn header(host: &str) -> Header {
    let plan = plan();
    let talks = host == "A";
    Header {
        format: FORMAT,
        run: format!("run of {host}"),
        network: plan.network.name.clone(),
        plan_id: plan.plan_id.clone(),
        epoch: plan.epoch,
        host: host.to_owned(),
        interface: "eth0".to_owned(),
        open_ns: START - 500 * MS,
        start_ns: START,
        planned_ns: None,
        talkers: Vec::from_iter(talks.then(|| TalkerEntry {
            stream: "there".to_owned(),
            path: "qdisc".to_owned(),
            stamps: StampKind::Kernel,
            paced: true,
        })),
        listeners: Vec::from_iter((!talks).then(|| ListenerEntry {
            stream: "there".to_owned(),
            path: "packet".to_owned(),
        })),
        clock: ClockBasis::Stated {
            uncertainty_ns: 2 * US,
        },
        stamps: None,
        boot_id: format!("boot of {host}"),
        machine: Machine::default(),
    }
}

/// Two whole files: each frame takes `delay` ns, by clocks of which B's is ahead by `offset` ns.
fn both(delay: impl Fn(u32) -> u64, offset: i64) -> [Made; 2] {
    let mut a = HostEvidence::new(header("A"));
    let mut b = HostEvidence::new(header("B"));
    for sequence in 0..FRAMES {
        let called_ns = START + u64::from(sequence) * MS;
        let stamp_ns = called_ns + 5 * US;
        a.sent[0].push(SentRecord {
            sequence,
            late_ns: 10,
            called_ns,
            returned_ns: called_ns + 20 * US,
            launch_ns: 0,
        });
        // A port on the route stamps it again, later.
        for stamp_ns in [stamp_ns + 90 * US, stamp_ns] {
            a.stamps[0].push(StampRecord { sequence, stamp_ns });
        }
        let came_ns = (stamp_ns + delay(sequence)).saturating_add_signed(offset);
        b.arrivals[0].push(ArrivalRecord {
            sequence,
            stamp_ns: came_ns,
            sender_ns: called_ns + US,
            read_ns: came_ns + 30 * US,
        });
    }
    let to_ns = START + u64::from(FRAMES) * MS;
    for evidence in [&mut a, &mut b] {
        evidence.account.noise = Some(NoiseRecord::default());
        evidence.account.end = Some(End {
            sent_to_ns: to_ns,
            heard_to_ns: to_ns + 400 * MS,
            ..End::default()
        });
    }
    a.account.talkers.push(TalkerTotals {
        stream: "there".to_owned(),
        frames_sent: u64::from(FRAMES),
        ..TalkerTotals::default()
    });
    b.account.listeners.push(ListenerTotals {
        stream: "there".to_owned(),
        frames_received: u64::from(FRAMES),
        ..ListenerTotals::default()
    });
    // Through the file, so that its counts are right.
    [("A.evidence", a), ("B.evidence", b)].map(|(name, evidence)| EvidenceFile {
        name: name.to_owned(),
        evidence: read(&evidence.to_bytes()).unwrap(),
    })
}

fn good() -> [Made; 2] {
    both(|_| 2 * US, 0)
}

fn options() -> JudgeOptions {
    JudgeOptions {
        allow_missing_ns: 1_000 * MS,
        rule: Rule::default(),
        command: "rtwire judge".to_owned(),
        rtwire_version: "0".to_owned(),
    }
}

fn judged(files: &[Made]) -> (Verdict, String) {
    let report = judge(&plan(), files, &options()).unwrap();
    (
        report.verdict,
        [report.reasons, report.notes].concat().join(" "),
    )
}

fn refused(files: &[Made]) -> JudgeError {
    judge(&plan(), files, &options()).unwrap_err()
}

#[track_caller]
fn is(files: &[Made], verdict: Verdict, part: &str) {
    let (found, said) = judged(files);
    assert_eq!(found, verdict, "{said}");
    assert!(said.contains(part), "{said}");
}

#[test]
fn two_whole_files_of_a_quiet_network_are_kept() {
    let report = judge(&plan(), &good(), &options()).unwrap();
    assert_eq!(report.verdict, Verdict::Kept, "{:?}", report.reasons);
    let stream = &report.streams[0];
    assert_eq!(stream.frames_received, u64::from(FRAMES));
    // From the first stamp, not from the call nor from a later stamp.
    assert_eq!(stream.network_delay_ns.unwrap().max, 2 * US);
    assert!(report.to_html().contains("there") && report.print_text().contains("KEPT"));
    let mut swapped = good();
    swapped.reverse();
    assert_eq!(
        judged(&swapped).0,
        Verdict::Kept,
        "the order of files is nothing"
    );
}

/// Promise of some microseconds, deadline 2 ms, 3.4 ms measured.
#[test]
fn what_is_later_than_promised_is_broken_and_the_clocks_are_a_term_of_their_own() {
    is(
        &both(|_| 3_400 * US, 0),
        Verdict::Broken,
        "no recorded stall",
    );
    let (promise, u) = (promise(), 4 * US);
    let one = |late: u64| move |at: u32| if at == 700 { late } else { 2 * US };
    is(
        &both(one(promise + u + 1), 0),
        Verdict::Broken,
        "1 of 1\u{a0}200",
    );
    is(
        &both(one(promise + u), 0),
        Verdict::Inconclusive,
        "may differ",
    );
    is(
        &both(one(promise - u + 1), 0),
        Verdict::Inconclusive,
        "may differ",
    );
    // B's clock: within what it claims, and beyond.
    assert_eq!(judged(&both(|_| US, -4_000)).0, Verdict::Kept);
    is(
        &both(|_| US, -6_000),
        Verdict::Inconclusive,
        "before they were sent",
    );
    let mut unknown = both(|_| 3_400 * US, 0);
    unknown[0].evidence.account.header.clock = ClockBasis::Unknown;
    is(&unknown, Verdict::Inconclusive, "Nobody knows how far");
    // Set during the run, at either end: no time of this stream means anything, and no talker's lateness.
    for host in [0, 1] {
        let mut set = both(|_| 3_400 * US, 0);
        set[host]
            .evidence
            .account
            .marks
            .push(clock_set("forward by 37.00 s"));
        is(
            &set,
            Verdict::Inconclusive,
            "the clock was set forward by 37.00",
        );
        let talkers = set[0].evidence.account.talkers.iter_mut();
        talkers.for_each(|totals| totals.cycles_skipped = 37_000);
        let expected = [Verdict::Inconclusive, Verdict::Broken][host];
        assert_eq!(judged(&set).0, expected, "cycles of host {host}");
    }
    // One kernel has one clock, whatever is said of it.
    for file in &mut unknown {
        file.evidence.account.header.boot_id = "one".to_owned();
    }
    is(&unknown, Verdict::Broken, "one clock");
}

#[test]
fn what_is_missing_is_named_and_settles_nothing() {
    let files = good();
    is(&files[..1], Verdict::Inconclusive, "no evidence of host B");
    is(&files[1..], Verdict::Inconclusive, "no evidence of host A");
    is(
        &[] as &[Made],
        Verdict::Inconclusive,
        "no evidence of host A",
    );
    let mut late = good();
    late[1].evidence.account.header.open_ns = START + 100 * MS;
    is(&late, Verdict::Kept, "begins later");
    let allowed = JudgeOptions {
        allow_missing_ns: 99 * MS,
        ..options()
    };
    let report = judge(&plan(), &late, &allowed).unwrap();
    assert_eq!(report.verdict, Verdict::Inconclusive);
    assert!(
        report.reasons[0].contains("first 100.0 ms"),
        "{:?}",
        report.reasons
    );
    let mut early = good();
    early[1].evidence.account.end.as_mut().unwrap().heard_to_ns -= 400 * MS;
    let report = judge(&plan(), &early, &allowed).unwrap();
    assert!(
        report.reasons[0].contains("last 300.0 ms"),
        "{:?}",
        report.reasons
    );
    let mut cut = good();
    cut[0].evidence.account.end.as_mut().unwrap().interrupted = true;
    is(&cut, Verdict::Inconclusive, "interrupted");
    let mut overrun = good();
    overrun[1].evidence.account.listeners[0].unkept = Unkept {
        overrun: 3,
        beyond_limit: 0,
    };
    overrun[1].evidence.arrivals[0].truncate(1_190);
    is(&overrun, Verdict::Inconclusive, "3 records of stream there");
    let mut other = good();
    for arrival in &mut other[1].evidence.arrivals[0] {
        arrival.sender_ns += MS;
    }
    is(&other, Verdict::Inconclusive, "another run of A");
}

#[test]
fn a_truncated_file_is_never_broken_nor_kept_for_what_it_lacks() {
    let mut slow = both(|_| 3_400 * US, 0);
    slow[0].evidence.account.end = None;
    is(&slow, Verdict::Inconclusive, "truncated");
    let mut lost = good();
    lost[1].evidence.account.end = None;
    lost[1].evidence.arrivals[0].truncate(1_100);
    is(&lost, Verdict::Inconclusive, "truncated");
    // And whole, the same loss is broken.
    let mut lost = good();
    lost[1].evidence.arrivals[0].truncate(1_100);
    is(
        &lost,
        Verdict::Broken,
        "Lost in the network: 100 of 1\u{a0}200",
    );
}

#[test]
fn what_is_no_evidence_of_this_run_is_refused_by_name() {
    let [a, b] = good();
    let twice = [a.clone(), b.clone(), a.clone()];
    assert!(matches!(refused(&twice), JudgeError::Twice { .. }));
    let mut second = a.clone();
    second.evidence.account.header.run = "another".to_owned();
    let two = [a.clone(), second];
    assert!(matches!(refused(&two), JudgeError::TwoRuns { .. }));
    let mut foreign = a.clone();
    foreign.evidence.account.header.plan_id = "x".to_owned();
    assert!(matches!(refused(&[foreign]), JudgeError::OtherPlan { .. }));
    let mut epoch = a.clone();
    epoch.evidence.account.header.epoch += 1;
    assert!(matches!(refused(&[epoch]), JudgeError::OtherEpoch { .. }));
    let mut nobody = a.clone();
    nobody.evidence.account.header.host = "C".to_owned();
    assert!(matches!(refused(&[nobody]), JudgeError::NoSuchHost { .. }));
    // A's evidence under B's name.
    let mut swapped = a;
    swapped.evidence.account.header.host = "B".to_owned();
    assert!(matches!(
        refused(&[swapped]),
        JudgeError::OtherStreams { .. }
    ));
}

#[test]
fn what_a_host_says_of_itself_counts() {
    let mut late = good();
    let due = START + 50 * MS;
    late[0].evidence.account.talkers[0].late = vec![(due, due + 900 * US)];
    is(&late, Verdict::Broken, "no recorded stall of the machine");
    late[0].evidence.account.noise.as_mut().unwrap().stalls = vec![Stall {
        source: StallSource::Core(0),
        alive_ns: due - 100 * US,
        due_ns: due,
        woke_ns: due + 900 * US,
    }];
    is(&late, Verdict::Kept, "while the machine stalled");
    let mut foreign = good();
    foreign[1].evidence.account.listeners[0].frames_foreign = 1;
    is(&foreign, Verdict::Broken, "another plan");
    let mut refused = good();
    refused[0].evidence.account.talkers[0].frames_refused = 1;
    is(&refused, Verdict::Broken, "no room");
    let mut again = good();
    again[1].evidence.account.listeners[0].talker_restarts = 1;
    is(&again, Verdict::Inconclusive, "began again");
}

/// A stall excuses a frame only on a machine at one of its ends.
#[test]
fn a_stall_elsewhere_excuses_nothing() {
    let at = START + 700 * MS;
    let slow = |sequence| {
        if sequence == 700 {
            promise() + 50 * US
        } else {
            2 * US
        }
    };
    let mut files = both(slow, 0);
    is(&files, Verdict::Broken, "no recorded stall");
    let stall = Stall {
        source: StallSource::Core(0),
        alive_ns: at,
        due_ns: at,
        woke_ns: at + 60 * US,
    };
    files[1].evidence.account.noise.as_mut().unwrap().stalls = vec![stall];
    is(&files, Verdict::Kept, "excluded");
    let parts = [0, 1].map(|at| File {
        name: "",
        evidence: &files[at].evidence.account,
        records: &files[at].evidence,
    });
    let record = stalls::of(&parts, [&"A".to_owned(), &"C".to_owned()]);
    assert_eq!(record.stalls, [], "B's machine is at neither end");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// A changed byte in either file never leaves a kept verdict, nor a panic.
    #[test]
    fn a_changed_byte_is_never_kept(which in 0_usize..2, at in 0_usize..1_000_000, bits in 1_u8..=255) {
        let mut files = good();
        let mut bytes = files[which].evidence.to_bytes();
        let at = at % bytes.len();
        bytes[at] ^= bits;
        if let Ok(evidence) = read(&bytes) {
            files[which].evidence = evidence;
            let report = judge(&plan(), &files, &options());
            prop_assert!(report.is_err() || report.unwrap().verdict != Verdict::Kept, "byte {at}");
        }
    }

    /// A file that is cut anywhere never leaves a kept verdict, nor a broken one.
    #[test]
    fn a_cut_is_never_kept(which in 0_usize..2, at in 0_usize..1_000_000) {
        let mut files = good();
        let bytes = files[which].evidence.to_bytes();
        let at = at % bytes.len();
        if let Ok(evidence) = read(&bytes[..at]) {
            files[which].evidence = evidence;
            prop_assert_eq!(judge(&plan(), &files, &options()).unwrap().verdict, Verdict::Inconclusive);
        }
    }
}

/// Bytes of this evidence as a run writes them: small blocks of all streams in turns.
fn in_turns(evidence: &HostEvidence, step: usize) -> Vec<u8> {
    let mut encoder = Encoder::default();
    let mut out = encoder.header(&evidence.account.header);
    let part = |at: usize, of: usize| (at * step).min(of)..((at + 1) * step).min(of);
    for at in 0..(4 * FRAMES as usize).div_ceil(step) {
        for (stream, records) in evidence.arrivals.iter().enumerate() {
            out.extend(encoder.arrivals(stream, &records[part(at, records.len())]));
        }
        for (stream, records) in evidence.stamps.iter().enumerate() {
            out.extend(encoder.stamps(stream, &records[part(at, records.len())]));
        }
        for (stream, records) in evidence.sent.iter().enumerate() {
            out.extend(encoder.sent(stream, &records[part(at, records.len())]));
        }
    }
    let account = &evidence.account;
    out.extend(account.talkers.iter().flat_map(|one| encoder.talker(one)));
    out.extend(
        account
            .listeners
            .iter()
            .flat_map(|one| encoder.listener(one)),
    );
    out.extend(account.noise.iter().flat_map(|one| encoder.noise(one)));
    out.extend(account.end.iter().flat_map(|one| encoder.end(*one)));
    out
}

/// The report from files that are read stream by stream is that of evidence in memory, byte for byte.
#[test]
fn a_file_read_stream_by_stream_is_judged_as_one_in_memory() {
    let slow = |at: u32| u64::from(at % 977) * US / 10;
    for made in [good(), both(slow, 1_000), both(|_| 3_400 * US, 0)] {
        let expected = judge(&plan(), &made, &options())
            .unwrap()
            .to_json()
            .unwrap();
        for step in [1, 100, 5_000] {
            let opened = made.clone().map(|file| EvidenceFile {
                evidence: Opened::open(in_turns(&file.evidence, step)).unwrap(),
                name: file.name,
            });
            let report = judge(&plan(), &opened, &options()).unwrap();
            assert_eq!(report.to_json().unwrap(), expected);
        }
    }
}

/// A file that changes while it is judged is not judged by what it was.
#[test]
fn a_file_that_changes_behind_the_first_look_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("A.evidence");
    let [a, _] = good();
    let mut bytes = a.evidence.to_bytes();
    std::fs::write(&path, &bytes).unwrap();
    let evidence = Opened::open(std::fs::File::open(&path).unwrap()).unwrap();
    let files = [EvidenceFile {
        name: a.name,
        evidence,
    }];
    assert!(judge(&plan(), &files, &options()).is_ok());
    let middle = bytes.len() / 3;
    bytes[middle] ^= 1;
    std::fs::write(&path, &bytes).unwrap();
    let refused = judge(&plan(), &files, &options()).unwrap_err().to_string();
    assert!(refused.contains("A.evidence: was changed"), "{refused}");
    std::fs::write(&path, &bytes[..middle]).unwrap();
    let refused = judge(&plan(), &files, &options()).unwrap_err().to_string();
    assert!(refused.contains("A.evidence: cannot be read"), "{refused}");
}
