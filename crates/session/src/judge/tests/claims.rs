//! Evidence that proves less than it seems to: no verdict may claim more.

use rtwire_measure::noise::{CoreNoise, HistogramBucket};

use super::*;

/// A core whose noise thread kept its priority.
fn core(number: u32) -> CoreNoise {
    CoreNoise {
        core: number,
        policy: "SCHED_FIFO".to_owned(),
        priority: 90,
        policy_at_end: "SCHED_FIFO".to_owned(),
        priority_at_end: 90,
        fallback: None,
        overshoot_ns: None,
        histogram: Vec::new(),
        steal_ns: 0,
        stalls: 1,
        stalled_ns: 0,
        dropped_stalls: 0,
    }
}

fn demoted() -> CoreNoise {
    CoreNoise {
        policy_at_end: "SCHED_OTHER".to_owned(),
        priority_at_end: 0,
        ..core(0)
    }
}

fn stall(number: u32, due_ns: u64, length_ns: u64) -> Stall {
    Stall {
        source: StallSource::Core(number),
        alive_ns: due_ns,
        due_ns,
        woke_ns: due_ns + length_ns,
    }
}

fn noise(made: &mut Made) -> &mut NoiseRecord {
    made.evidence.account.noise.as_mut().unwrap()
}

/// Frame 700 is later than promised by 50 us.
fn one_late(sequence: u32) -> u64 {
    match sequence {
        700 => promise() + 50 * US,
        _ => 2 * US,
    }
}

/// Removes the arrivals before B's evidence begins.
fn begun_late(files: &mut [Made; 2], open_ns: u64) {
    let b = &mut files[1].evidence;
    b.account.header.open_ns = open_ns;
    b.arrivals[0].retain(|arrival| arrival.read_ns >= open_ns);
}

/// B's clock is a second behind, and nobody knows it: the time of its evidence says nothing of what A sent in it.
#[test]
fn clocks_that_nobody_knows_make_no_frame_lost() {
    let mut files = both(|_| 2 * US, -1_000_000_000);
    for file in &mut files {
        file.evidence.account.header.clock = ClockBasis::Unknown;
    }
    begun_late(&mut files, START + 100 * MS);
    assert_eq!(files[1].evidence.arrivals[0].len(), 100);
    is(&files, Verdict::Inconclusive, "Nobody knows how far");
    is(
        &files,
        Verdict::Inconclusive,
        "The first 1.100 s of stream there",
    );
    // Between frames that arrived, none may be missing.
    files[1].evidence.arrivals[0].remove(50);
    is(&files, Verdict::Broken, "Lost in the network: 1 of 100");
    let mut nothing = files;
    nothing[1].evidence.arrivals[0].clear();
    is(
        &nothing,
        Verdict::Inconclusive,
        "The first 1.200 s of stream there",
    );
}

/// B's clock is behind by as much as both claim: what came before it listened is not lost.
#[test]
fn clocks_that_are_known_leave_their_difference_at_both_ends() {
    let mut files = both(|_| 2 * US, -100_000_000);
    for file in &mut files {
        file.evidence.account.header.clock = ClockBasis::Stated {
            uncertainty_ns: 50 * MS,
        };
    }
    begun_late(&mut files, START + 100 * MS);
    is(&files, Verdict::Kept, "The first 200.0 ms");
    // The same at the end: B is ahead by more than frames are waited for, and ended before the talker.
    let mut files = both(|_| 2 * US, 400_000_000);
    for file in &mut files {
        file.evidence.account.header.clock = ClockBasis::Stated {
            uncertainty_ns: 200 * MS,
        };
    }
    let heard_to_ns = START + 1_500 * MS;
    let b = &mut files[1].evidence;
    b.account.end.as_mut().unwrap().heard_to_ns = heard_to_ns;
    b.arrivals[0].retain(|arrival| arrival.read_ns < heard_to_ns);
    assert_eq!(b.arrivals[0].len(), 1_100);
    is(&files, Verdict::Inconclusive, "The last 400.0 ms");
}

/// A clock that was set while B listened: its evidence may begin at any time.
#[test]
fn a_clock_that_was_set_makes_no_frame_lost() {
    let mut files = good();
    let b = &mut files[1].evidence;
    b.arrivals[0].retain(|arrival| arrival.sequence >= 300);
    b.account.header.open_ns = START + 100 * MS;
    b.account.marks.push(clock_set("back by 200.0 ms"));
    is(&files, Verdict::Inconclusive, "was set back");
}

/// Stalls that demoted threads recorded excuse neither a frame nor a cycle nor a contract, at either end.
#[test]
fn a_record_of_demoted_threads_excuses_nothing() {
    let at = START + 700 * MS;
    let mut files = both(one_late, 0);
    noise(&mut files[1]).stalls = vec![stall(0, at, 60 * US)];
    is(&files, Verdict::Kept, "excluded");
    noise(&mut files[1]).cores = vec![demoted()];
    let (verdict, said) = judged(&files);
    assert_ne!(verdict, Verdict::Kept, "{said}");
    assert!(
        said.contains("began as SCHED_FIFO 90 and ended as SCHED_OTHER 0"),
        "{said}"
    );
    // Nothing is late: it is named, and settles nothing.
    let mut quiet = good();
    noise(&mut quiet[0]).cores = vec![demoted()];
    is(
        &quiet,
        Verdict::Inconclusive,
        "no recorded stall excuses anything",
    );
    let mut cycles = good();
    cycles[0].evidence.account.talkers[0].late = vec![(at, at + 900 * US)];
    noise(&mut cycles[0]).stalls = vec![stall(0, at, 900 * US)];
    is(&cycles, Verdict::Kept, "while the machine stalled");
    noise(&mut cycles[0]).cores = vec![demoted()];
    is(
        &cycles,
        Verdict::Broken,
        "no recorded stall of the machine explains it",
    );
    let mut beyond = good();
    let held = at + 10 * MS;
    for stamp in &mut beyond[0].evidence.stamps[0] {
        if (700..710).contains(&stamp.sequence) {
            stamp.stamp_ns = held;
        }
    }
    for sent in &mut beyond[0].evidence.sent[0][700..710] {
        sent.returned_ns = held + US;
    }
    for arrival in &mut beyond[1].evidence.arrivals[0][700..710] {
        (arrival.stamp_ns, arrival.read_ns) = (held + US, held + 2 * US);
    }
    noise(&mut beyond[0]).stalls = vec![stall(0, at - MS, 11 * MS)];
    assert_ne!(judged(&beyond).0, Verdict::Broken, "{}", judged(&beyond).1);
    noise(&mut beyond[0]).cores = vec![demoted()];
    is(&beyond, Verdict::Broken, "beyond its contract");
}

/// A core's record was full early, another's went on: nobody knows the stalls of the first since then.
#[test]
fn a_full_record_of_one_core_is_not_hidden_by_another() {
    let mut files = both(one_late, 0);
    let record = noise(&mut files[1]);
    record.stalls = vec![
        stall(0, START + 100 * MS, 200 * US),
        stall(1, START + 900 * MS, 200 * US),
    ];
    record.cores = vec![core(0), core(1)];
    is(&files, Verdict::Broken, "no recorded stall");
    noise(&mut files[1]).cores[0].dropped_stalls = 3;
    is(
        &files,
        Verdict::Inconclusive,
        "only if the stall began before",
    );
    is(
        &files,
        Verdict::Inconclusive,
        "3 stalls of core 0 found no room",
    );
    // And where nothing is late, the record is still not whole.
    let mut quiet = good();
    noise(&mut quiet[1]).cores = vec![CoreNoise {
        dropped_stalls: 3,
        ..core(0)
    }];
    is(&quiet, Verdict::Inconclusive, "found no room");
}

/// A frame that a stall kept from its launch time waits for the next window: longer than the stall.
#[test]
fn a_launch_time_that_a_stall_missed_is_not_broken() {
    let mut files = good();
    let [a, b] = &mut files;
    a.evidence.account.header.talkers[0].stamps = StampKind::Launch;
    for sent in &mut a.evidence.sent[0] {
        sent.launch_ns = sent.called_ns + 5 * US;
    }
    let sent = &mut a.evidence.sent[0][700];
    let launch_ns = sent.launch_ns;
    (sent.called_ns, sent.returned_ns) = (launch_ns + 300 * US, launch_ns + 320 * US);
    let arrival = &mut b.evidence.arrivals[0][700];
    arrival.sender_ns = launch_ns + 301 * US;
    (arrival.stamp_ns, arrival.read_ns) = (launch_ns + 990 * US, launch_ns + 995 * US);
    is(&files, Verdict::Broken, "no recorded stall");
    noise(&mut files[0]).stalls = vec![stall(0, launch_ns - 100 * US, 390 * US)];
    is(&files, Verdict::Inconclusive, "sent beyond its contract");
    // Another stall explains no launch time.
    noise(&mut files[0]).stalls = vec![stall(0, launch_ns - 10 * MS, 390 * US)];
    is(&files, Verdict::Broken, "no recorded stall");
}

/// Frames whose stamps are missing were sent all the same.
#[test]
fn a_talker_without_stamps_is_held_to_its_contract() {
    let mut files = good();
    files[0].evidence.stamps[0].clear();
    let at = |sequence: u32| START + u64::from(sequence) * MS / 4;
    for sent in &mut files[0].evidence.sent[0] {
        (sent.called_ns, sent.returned_ns) = (at(sent.sequence), at(sent.sequence) + 20 * US);
    }
    for arrival in &mut files[1].evidence.arrivals[0] {
        let called_ns = at(arrival.sequence);
        arrival.sender_ns = called_ns + US;
        (arrival.stamp_ns, arrival.read_ns) = (called_ns + 7 * US, called_ns + 40 * US);
    }
    is(&files, Verdict::Broken, "beyond its contract");
}

/// The plan of two hosts with best effort from A, 10 Mbit/s.
fn with_office() -> Plan {
    let network = format!(
        "{NETWORK}\n[[best-effort]]\nname = \"office\"\nhost = \"A\"\nto = [\"B\"]\nrate = \"10 Mbit/s\"\n"
    );
    let network = rtwire_plan::read(&network, "two.toml", &[]).unwrap();
    rtwire_plan::plan(&network, &rtwire_plan::Options::default()).unwrap()
}

/// Evidence of that plan; A sends `frames` of best effort, one in each `interval_ns`. `None`: it was not asked to.
fn office(plan: &Plan, load: Option<(u32, u64)>) -> [Made; 2] {
    let mut files = good();
    for file in &mut files {
        let header = &mut file.evidence.account.header;
        (header.plan_id, header.epoch) = (plan.plan_id.clone(), plan.epoch);
    }
    let Some((frames, interval_ns)) = load else {
        return files;
    };
    let [a, b] = &mut files;
    let sent = (0..frames).map(|sequence| {
        let called_ns = START + u64::from(sequence) * interval_ns;
        SentRecord {
            sequence,
            late_ns: 0,
            called_ns,
            returned_ns: called_ns + 20 * US,
            launch_ns: 0,
        }
    });
    let sent: Vec<SentRecord> = sent.collect();
    let stamps = sent.iter().map(|sent| StampRecord {
        sequence: sent.sequence,
        stamp_ns: sent.called_ns + 5 * US,
    });
    a.evidence.stamps.push(stamps.collect());
    a.evidence.sent.push(sent);
    let account = &mut a.evidence.account;
    account.header.talkers.push(TalkerEntry {
        stream: "office".to_owned(),
        path: "qdisc".to_owned(),
        stamps: StampKind::Kernel,
        paced: true,
    });
    account.talkers.push(TalkerTotals {
        stream: "office".to_owned(),
        frames_sent: u64::from(frames),
        ..TalkerTotals::default()
    });
    b.evidence.arrivals.push(Vec::new());
    let account = &mut b.evidence.account;
    account.header.listeners.push(ListenerEntry {
        stream: "office".to_owned(),
        path: "packet".to_owned(),
    });
    account.listeners.push(ListenerTotals {
        stream: "office".to_owned(),
        ..ListenerTotals::default()
    });
    files
}

/// Best effort that a run sent has a contract and a load; best effort that it did not send is named.
#[test]
fn best_effort_is_judged_where_it_was_sent_and_named_where_not() {
    let plan = with_office();
    let allowance = &plan.network.best_effort[0];
    let bits = i128::from(allowance.wire_bytes) * 8_000_000_000;
    let interval_ns = u64::try_from(bits * allowance.rate.den() / allowance.rate.num()).unwrap();
    let most = u32::try_from(1_200 * MS / interval_ns).unwrap();
    let of = |load| {
        let report = judge(&plan, &office(&plan, load), &options()).unwrap();
        (report.verdict, report.reasons.join(" "), report.talkers)
    };
    let (verdict, said, talkers) = of(Some((most, interval_ns)));
    assert_eq!(verdict, Verdict::Kept, "{said}");
    assert!(!said.contains("office"), "{said}");
    assert_eq!(talkers.len(), 2, "{said}");
    let (verdict, said, _) = of(Some((most / 2, interval_ns)));
    assert_eq!(verdict, Verdict::Inconclusive, "{said}");
    assert!(
        said.contains("Talker of office to B") && said.contains("not offered"),
        "{said}"
    );
    let (verdict, said, _) = of(Some((most, interval_ns / 2)));
    assert_eq!(verdict, Verdict::Broken, "{said}");
    assert!(
        said.contains("Talker of office to B") && said.contains("beyond its contract"),
        "{said}"
    );
    let (verdict, said, _) = of(None);
    assert_eq!(verdict, Verdict::Kept, "{said}");
    assert!(
        said.contains("office from A to B") && said.contains("--best-effort"),
        "{said}"
    );
}

/// Numbers at which sums, differences and loops go wrong.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        0_u64..3,
        Just(u64::MAX),
        Just(u64::MAX - 1),
        Just(1 << 63),
        Just(10_000_000_000_000_000_000),
        START..START + 2_000 * MS,
        any::<u64>(),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Evidence with right checks and any numbers is refused or judged: without a panic, and in time.
    #[test]
    fn any_numbers_are_refused_or_judged(n in proptest::collection::vec(number(), 32), who in 0_usize..2) {
        let mut files = good();
        let evidence = &mut files[who].evidence;
        let account = &mut evidence.account;
        for totals in &mut account.talkers {
            (totals.frames_sent, totals.cycles_skipped, totals.frames_refused) = (n[0], n[1], n[2] & 1);
            totals.late = vec![(n[3], n[4]), (n[5], n[6])];
        }
        for totals in &mut account.listeners {
            (totals.frames_received, totals.arrivals_missed, totals.socket_drops) = (n[0], n[1], n[2]);
            (totals.frames_policed, totals.frames_overtaken, totals.frames_reordered) = (n[3], n[4], n[5]);
            totals.unkept = Unkept { overrun: n[6], beyond_limit: n[7] };
        }
        let cores = [8, 12].map(|at| CoreNoise {
            histogram: vec![HistogramBucket { from_ns: n[at], to_ns: n[at + 1], count: n[at + 2] }],
            dropped_stalls: n[at + 3],
            stalls: n[at + 2],
            stalled_ns: n[at + 1],
            ..core(at as u32)
        });
        let stall = |at: usize| {
            let mut times = [n[at], n[at + 1], n[at + 2]];
            if n[at] & 1 == 0 {
                times.sort_unstable();
            }
            Stall { source: StallSource::Core(8), alive_ns: times[0], due_ns: times[1], woke_ns: times[2] }
        };
        account.noise = Some(NoiseRecord {
            from_ns: n[16],
            to_ns: n[17],
            period_ns: n[18],
            stall_threshold_ns: n[19],
            cores: cores.to_vec(),
            stalls: vec![stall(20), stall(23)],
            steal: Vec::new(),
        });
        account.header.open_ns = n[26];
        account.header.start_ns = n[27];
        account.end = Some(End { sent_to_ns: n[28], heard_to_ns: n[29], ..End::default() });
        account.header.clock = ClockBasis::Stated { uncertainty_ns: n[30] };
        for records in &mut evidence.sent {
            (records[3].called_ns, records[3].returned_ns) = (n[31], n[30]);
        }
        for records in &mut evidence.arrivals {
            (records[3].stamp_ns, records[3].read_ns) = (n[31], n[30]);
        }
        if let Ok(evidence) = read(&files[who].evidence.to_bytes()) {
            files[who].evidence = evidence;
            let report = judge(&plan(), &files, &options()).unwrap();
            prop_assert!(!report.to_html().is_empty() && !report.print_text().is_empty());
        }
    }
}
