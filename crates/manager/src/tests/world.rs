//! Hosts, a manager that crashes, and a line that loses, doubles, delays, reorders and forges: in virtual time.
//!
//! The world knows what each host believes. After each step no link carries more than its rate by what hosts believe.
//! At the end, when all hosts know the answers to all requests, both sides agree, and the plan of that epoch verifies.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use rtwire_plan::{BestEffort, Ratio};

use super::*;
use crate::*;

const MS: u64 = 1_000_000;

/// The faults of the line, in percent.
#[derive(Clone, Copy, Debug)]
struct Faults {
    lost: u64,
    doubled: u64,
    forged: u64,
    crash_permille: u64,
    longest_ms: u64,
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }
}

/// One host: its program wants to reserve, release and share, and repeats each request until it has an answer.
struct Host {
    name: &'static str,
    client: Client,
    /// The origin of its clock: hours from that of the manager.
    offset_ns: u64,
    request: Option<Question>,
    begun_ns: u64,
    next_request: u128,
    owns: BTreeMap<u64, Granted>,
    released: BTreeSet<u64>,
    /// The rate of its one-shot reservation and its end by the host's own clock.
    share: (u64, u64),
    share_to: &'static str,
    granted: usize,
    refused: usize,
}

/// The durable part of the manager.
#[derive(Clone, Default)]
struct Disk {
    connections: BTreeMap<u64, Stored>,
    last_connection: u64,
    epoch: u64,
}

/// The lifetime of one-shot reservations, microseconds.
const LIFETIME_US: u32 = 50_000;

impl Disk {
    fn write(&mut self, change: &Change) {
        match change {
            Change::Admitted(stored) => {
                let bytes = stored.to_bytes();
                let stored = Stored::from_bytes(&bytes).unwrap();
                self.last_connection = self.last_connection.max(stored.granted.connection);
                self.epoch = self.epoch.max(stored.granted.epoch);
                self.connections.insert(stored.granted.connection, stored);
            }
            Change::Released { connection, epoch } => {
                self.connections.remove(connection).expect("it was stored");
                self.epoch = self.epoch.max(*epoch);
            }
        }
    }

    fn manager(&self, plan: &Arc<Plan>, budgets: &Budgets, epoch: u64, now_ns: u64) -> Manager {
        let quotas = Quotas {
            connections: 12,
            rate_bytes_per_ms: u64::MAX,
            requests_per_second: 2_000,
            requests_at_once: 1_000,
        };
        let restored = Restored {
            connections: self.connections.values().cloned().collect(),
            last_connection: self.last_connection,
            epoch: self.epoch,
            longest_lifetime_us: LIFETIME_US,
        };
        let settings = Settings {
            quotas,
            shares: ShareRules {
                lifetime_us: LIFETIME_US,
                ..ShareRules::default()
            },
            epoch,
            now_ns,
        };
        Manager::new(Arc::clone(plan), budgets, restored, keys(), settings).unwrap()
    }
}

/// A datagram under way: the moment of arrival, its number, and the host; to the manager or back.
type Line = BTreeMap<(u64, u64), (usize, bool, Vec<u8>)>;

struct World {
    random: Random,
    faults: Faults,
    now_ns: u64,
    line: Line,
    sent: u64,
    recorded: Vec<Vec<u8>>,
    hosts: Vec<Host>,
    manager: Manager,
    /// The manager's snapshot at its start, with its changes since then.
    followed: Snapshot,
    disk: Disk,
    plan: Arc<Plan>,
    budgets: Budgets,
    starts: u64,
    crashes: usize,
    refereed: usize,
}

impl World {
    fn new(seed: u64, faults: Faults) -> World {
        let (plan, budgets) = plan();
        let disk = Disk::default();
        let manager = disk.manager(&plan, &budgets, 1, 0);
        let mut random = Random(seed | 1);
        let hosts = ["a", "b", "c", "y"].into_iter().map(|name| Host {
            name,
            client: Client::new(name, key(name)),
            offset_ns: random.below(48) * 3_600_000 * MS,
            request: None,
            begun_ns: 0,
            next_request: 1,
            owns: BTreeMap::new(),
            released: BTreeSet::new(),
            share: (0, 0),
            share_to: if name == "y" { "a" } else { "y" },
            granted: 0,
            refused: 0,
        });
        let hosts = hosts.collect();
        World {
            random,
            faults,
            now_ns: 0,
            line: Line::new(),
            sent: 0,
            recorded: Vec::new(),
            hosts,
            followed: manager.snapshot(),
            manager,
            disk,
            plan,
            budgets,
            starts: 1,
            crashes: 0,
            refereed: 0,
        }
    }

    fn send(&mut self, host: usize, to_manager: bool, bytes: &[u8]) {
        let copies = if self.random.percent(self.faults.lost) {
            0
        } else if self.random.percent(self.faults.doubled) {
            2
        } else {
            1
        };
        for _ in 0..copies {
            let delay = self.random.below(self.faults.longest_ms * MS) + 1;
            self.sent += 1;
            let at = (self.now_ns + delay, self.sent);
            self.line.insert(at, (host, to_manager, bytes.to_vec()));
        }
        self.recorded.push(bytes.to_vec());
        if self.random.percent(self.faults.forged) {
            // What was heard before, as it was or with one byte changed, in either direction.
            let at = self.random.below(self.recorded.len() as u64) as usize;
            let mut bytes = self.recorded[at].clone();
            if self.random.percent(50) {
                let place = self.random.below(bytes.len() as u64) as usize;
                bytes[place] ^= 1 << self.random.below(8);
            }
            self.sent += 1;
            let delay = self.random.below(self.faults.longest_ms * 4 * MS) + 1;
            let to_manager = self.random.percent(50);
            let at = (self.now_ns + delay, self.sent);
            self.line.insert(at, (host, to_manager, bytes));
        }
    }

    fn crash(&mut self) {
        self.starts += 1;
        self.crashes += 1;
        self.manager = self
            .disk
            .manager(&self.plan, &self.budgets, self.starts, self.now_ns);
        self.followed = self.manager.snapshot();
    }

    fn arrive(&mut self, host: usize, to_manager: bool, bytes: &[u8]) {
        if to_manager {
            let outcome = self.manager.datagram(self.now_ns, "line", bytes);
            if self.random.below(1000) < self.faults.crash_permille {
                // Before the change is durable, or after it and before the answer.
                if self.random.percent(50) {
                    outcome
                        .change
                        .iter()
                        .for_each(|change| self.disk.write(change));
                }
                self.crash();
                return;
            }
            if let Some(change) = outcome.change {
                self.disk.write(&change);
                self.followed.follow(change);
            }
            if let Some(answer) = outcome.answer {
                self.send(host, false, &answer);
            }
            return;
        }
        let own = self.now_ns + self.hosts[host].offset_ns;
        let asked_ns = self.hosts[host].client.asked_ns();
        let step = self.hosts[host].client.datagram(own, bytes);
        self.step(host, step, asked_ns);
    }

    fn step(&mut self, at: usize, step: Step, asked_ns: Option<u64>) {
        match step {
            Step::Send(bytes) => self.send(at, true, &bytes),
            Step::Done(answer) => self.answered(at, answer, asked_ns.unwrap()),
            Step::TooLate => {
                let host = &mut self.hosts[at];
                if let Some(Question::Share { .. }) = host.request {
                    // Its time began with the first transmission: another one is another request.
                    host.request = None;
                    return;
                }
                // The same request again: the manager may have decided.
                let own = self.now_ns + host.offset_ns;
                let question = host.request.clone().unwrap();
                let nonce = u128::from(self.random.next());
                host.client.ask(own, own + 300 * MS, question, nonce);
            }
            Step::Wait(_) | Step::Idle => {}
        }
    }

    fn answered(&mut self, at: usize, answer: Answer, asked_ns: u64) {
        let host = &mut self.hosts[at];
        let request = host.request.take().unwrap();
        match (request, answer) {
            (Question::Reserve { .. }, Answer::Granted(granted)) => {
                assert!(!host.released.contains(&granted.connection));
                host.owns.insert(granted.connection, granted);
                host.granted += 1;
            }
            (
                Question::Release { connection, .. },
                Answer::Released {
                    connection: other, ..
                },
            ) => {
                assert_eq!(connection, other);
                host.released.insert(connection);
            }
            (Question::Share { .. }, Answer::Shared(share)) => {
                // The agent's rule: from the first transmission, less a margin, on its own clock.
                let end = asked_ns + u64::from(share.lifetime_us) * 1_000;
                host.share = (u64::from(share.rate_bytes_per_ms), end);
            }
            (_, Answer::Refused(_)) => host.refused += 1,
            (request, answer) => panic!("{answer:?} is no answer to {request:?}"),
        }
    }

    /// Lets an idle host ask for something.
    fn wish(&mut self, at: usize) {
        let host = &mut self.hosts[at];
        let own = self.now_ns + host.offset_ns;
        if host.request.is_some() {
            return;
        }
        let request = host.next_request;
        host.next_request += 1;
        let question = match self.random.below(10) {
            0..=3 => {
                let listener = ["x", "y", "a", "b"][self.random.below(4) as usize];
                Question::Reserve {
                    request,
                    only_ask: false,
                    ask: Ask {
                        pcp: self.random.below(8) as u8,
                        deadline_ns: self.random.percent(20).then_some(4 * MS),
                        interval_ns: self.random.percent(40).then(|| {
                            let interval = [500_000, MS, 2 * MS, 3 * MS];
                            interval[self.random.below(4) as usize]
                        }),
                        ..ask(listener, 1 + self.random.below(3_000) as u32)
                    },
                }
            }
            4..=5 if !host.owns.is_empty() => {
                let nth = self.random.below(host.owns.len() as u64) as usize;
                let connection = *host.owns.keys().nth(nth).unwrap();
                // A host stops sending before it says so.
                host.owns.remove(&connection);
                Question::Release {
                    request,
                    connection,
                }
            }
            _ => Question::Share {
                request,
                listener: host.share_to.to_owned(),
                // Only an agent whose reservation is over returns it.
                wanted_bytes_per_ms: 1 + self.random.below(12_500) as u32,
            },
        };
        host.request = Some(question.clone());
        host.begun_ns = own;
        let nonce = u128::from(self.random.next());
        host.client.ask(own, own + 300 * MS, question, nonce);
    }

    /// Sums what hosts believe that they may send, on each link, bytes per millisecond.
    fn no_link_is_over_capacity(&mut self) {
        let mut load: BTreeMap<(String, String), u64> = BTreeMap::new();
        let own_stream = ("a".to_owned(), "x".to_owned(), 224);
        let mut flows = vec![own_stream];
        for host in &self.hosts {
            for granted in host.owns.values() {
                let rate = u64::from(granted.ask.rate_bytes_per_ms);
                flows.push((granted.talker.clone(), granted.ask.listener.clone(), rate));
            }
            let (rate, end_ns) = host.share;
            if self.now_ns + host.offset_ns < end_ns {
                flows.push((host.name.to_owned(), host.share_to.to_owned(), rate));
            }
        }
        let side = |host: &str| {
            if matches!(host, "x" | "y") {
                "s2"
            } else {
                "s1"
            }
        };
        for (from, to, rate) in flows {
            let mut way = vec![from.as_str(), side(&from)];
            if side(&from) != side(&to) {
                way.push(side(&to));
            }
            way.push(&to);
            for pair in way.windows(2) {
                let key = (pair[0].to_owned(), pair[1].to_owned());
                *load.entry(key).or_default() += rate;
            }
        }
        for ((from, to), sum) in load {
            assert!(
                sum <= 12_500,
                "{from}>{to}: {sum} bytes per ms at {} ns",
                self.now_ns
            );
        }
    }

    fn run(&mut self, until_ns: u64, wishes: bool) {
        while self.now_ns < until_ns {
            let tick = self.now_ns + 5 * MS;
            while let Some(entry) = self.line.first_entry() {
                if entry.key().0 > tick {
                    break;
                }
                self.now_ns = self.now_ns.max(entry.key().0);
                let (host, to_manager, bytes) = entry.remove();
                self.arrive(host, to_manager, &bytes);
                self.no_link_is_over_capacity();
            }
            self.now_ns = tick;
            for at in 0..self.hosts.len() {
                if wishes && self.random.percent(30) {
                    self.wish(at);
                }
                let asked_ns = self.hosts[at].client.asked_ns();
                let own = self.now_ns + self.hosts[at].offset_ns;
                let step = self.hosts[at].client.poll(own);
                self.step(at, step, asked_ns);
            }
            self.no_link_is_over_capacity();
        }
    }

    /// Plans anew what hosts may send at this moment, one-shot reservations included, as a referee: no promise is broken.
    fn every_promise_holds_beside_the_reservations(&mut self) {
        let mut plan = self.manager.snapshot().plan().unwrap();
        let burst = Ratio::whole(i128::from(ShareRules::default().burst_bytes) * 8);
        let mut used = 0;
        for host in &self.hosts {
            let (rate, end_ns) = host.share;
            if self.now_ns + host.offset_ns >= end_ns {
                continue;
            }
            used += 1;
            let rate = Ratio::whole(i128::from(rate) * 8_000);
            let route = match host.name {
                "y" => ["y", "s2", "s1", "a"],
                name => [name, "s1", "s2", "y"],
            };
            plan.network.best_effort.push(BestEffort {
                name: format!("share-{}", host.name),
                host: host.name.to_owned(),
                to: vec![host.share_to.to_owned()],
                rate_bps: rate,
                rate,
                burst,
                frame_bytes: 1518,
                wire_bytes: 1542,
                routes: vec![route.map(str::to_owned).to_vec()],
            });
        }
        plan.network.check().unwrap();
        // The deadline of each connection in this network is its promise.
        let planned = rtwire_plan::plan(&plan.network, &rtwire_plan::Options::default());
        if let Err(refusal) = planned {
            panic!("{used} reservations: {refusal}");
        }
        self.refereed += used;
    }

    fn agree(&mut self) {
        let waiting = self.hosts.iter().filter(|host| host.request.is_some());
        assert_eq!(waiting.count(), 0, "a request has no answer");
        let mut believed = BTreeMap::new();
        for host in &self.hosts {
            believed.extend(host.owns.clone());
        }
        let stored = self.disk.connections.values();
        let stored: BTreeMap<u64, Granted> = stored
            .map(|one| (one.granted.connection, one.granted.clone()))
            .collect();
        assert_eq!(believed, stored);
        assert_eq!(self.manager.connections(), stored.len());
        assert_eq!(self.followed, self.manager.snapshot());
        for (id, granted) in &believed {
            assert_eq!(self.manager.granted(*id), Some(granted));
        }
        cyclic_frames_never_meet(believed.values());
        // A manager that starts now has the same, and the plan of its epoch holds every promise.
        let mut fresh = self.disk.manager(&self.plan, &self.budgets, 999, 0);
        assert_eq!(fresh.epoch(), self.manager.epoch());
        assert!(fresh.link("s1", "s2").unwrap().0 >= self.manager.link("s1", "s2").unwrap().0);
        let plan = fresh.snapshot().plan().unwrap();
        assert_eq!(rtwire_plan::verify(&plan), []);
        for granted in believed.values() {
            let name = format!("connection-{}", granted.connection);
            let stream = plan.streams.iter().find(|one| one.name == name).unwrap();
            assert!(stream.promises[0].delay_ns.unwrap() <= granted.promise_ns);
            if let Some(deadline_ns) = granted.ask.deadline_ns {
                assert!(granted.promise_ns <= deadline_ns);
            }
        }
    }
}

fn cases() -> u32 {
    let asked = std::env::var("PROPTEST_CASES").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(16)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), ..ProptestConfig::default() })]

    #[test]
    fn no_fault_of_the_line_or_the_manager_parts_the_two_sides(
        seed: u64, lost in 0_u64..60, doubled in 0_u64..40, forged in 0_u64..40,
        crash_permille in 0_u64..15, longest_ms in 1_u64..80,
    ) {
        let faults = Faults { lost, doubled, forged, crash_permille, longest_ms };
        let mut world = World::new(seed, faults);
        for round in 1..=6 {
            world.run(round * 500 * MS, true);
            world.every_promise_holds_beside_the_reservations();
        }
        // No more wishes and no more crashes: all requests come to an end, late messages arrive.
        world.faults.crash_permille = 0;
        world.faults.lost = world.faults.lost.min(30);
        let end = world.now_ns + 6_000 * MS;
        world.run(end, false);
        world.agree();
    }
}

/// The good case: without faults, hosts are granted things.
#[test]
fn hosts_get_what_they_ask_for_where_nothing_is_in_the_way() {
    let faults = Faults {
        lost: 0,
        doubled: 0,
        forged: 0,
        crash_permille: 0,
        longest_ms: 2,
    };
    let mut world = World::new(5, faults);
    for round in 1..=6 {
        world.run(round * 500 * MS, true);
        world.every_promise_holds_beside_the_reservations();
    }
    assert!(world.refereed > 6, "{}", world.refereed);
    let granted: usize = world.hosts.iter().map(|host| host.granted).sum();
    assert!(granted > 20, "{granted}");
    assert!(world.manager.counts().shared > 20);
    let end = world.now_ns + 1_000 * MS;
    world.run(end, false);
    world.agree();
    assert_eq!(world.manager.counts().distrusted.values().sum::<u64>(), 0);
}

/// The faults are really there in a run with faults.
#[test]
fn the_line_has_the_faults_that_it_is_asked_for() {
    let faults = Faults {
        lost: 20,
        doubled: 20,
        forged: 30,
        crash_permille: 10,
        longest_ms: 40,
    };
    let mut world = World::new(11, faults);
    let mut counts = BTreeMap::new();
    for _ in 0..60 {
        let end = world.now_ns + 100 * MS;
        world.run(end, true);
        for ((_, why), count) in &world.manager.counts().distrusted {
            *counts.entry(*why).or_insert(0) += count;
        }
    }
    assert!(world.crashes > 2, "{}", world.crashes);
    for why in [Distrust::Forged, Distrust::Replayed, Distrust::Stale] {
        assert!(counts.contains_key(&why), "{why:?}: {counts:?}");
    }
}

/// Looks at every launch of every cyclic connection until all of them repeat: on the link of a talker no two frames meet, however
/// late each may be.
fn cyclic_frames_never_meet<'a>(all: impl Iterator<Item = &'a Granted>) {
    const ALL_REPEAT_NS: u64 = 6 * MS;
    let mut of_hosts: BTreeMap<&str, Vec<(u64, u64, u64)>> = BTreeMap::new();
    for granted in all {
        assert_eq!(
            granted.launch_offset_ns.is_some(),
            granted.ask.interval_ns.is_some()
        );
        let Some(interval_ns) = granted.ask.interval_ns else {
            continue;
        };
        let launches = of_hosts.entry(&granted.talker).or_default();
        // 500 B, 24 B of preamble, FCS and gap, at 100 Mbit/s; and late by the tick error of 50 us.
        let length_ns = 524 * 80 + 50_000;
        let first_ns = granted.launch_offset_ns.unwrap();
        assert!(first_ns < interval_ns);
        let mut at_ns = first_ns;
        while at_ns < 2 * ALL_REPEAT_NS {
            launches.push((at_ns, at_ns + length_ns, granted.connection));
            at_ns += interval_ns;
        }
        // One frame in each interval is within the shaper.
        let bytes = u64::from(granted.ask.rate_bytes_per_ms) * interval_ns;
        assert!(bytes >= 524 * MS, "{granted:?}");
    }
    for launches in of_hosts.values_mut() {
        launches.sort_unstable();
        for pair in launches.windows(2) {
            assert!(pair[0].1 <= pair[1].0, "{pair:?}");
        }
    }
}
