//! Figures about admission while the network runs: from a request's datagram to its durable answer, MACs and route
//! included, beside planning the whole network anew.
//!
//! Writes `target/bench/manager.json`. `--quick` measures fewer connections, for tests. `--out FOLDER` writes to
//! `FOLDER/bench/manager.json`.
#![allow(
    clippy::unwrap_used,
    clippy::missing_docs_in_private_items,
    clippy::cast_precision_loss,
    reason = "a benchmark that cannot run should stop"
)]

#[path = "manager/daemon.rs"]
mod daemon;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rtwire_manager::{
    Answer, Ask, Carrier, Change, Granted, Header, Key, Manager, Question, Quotas, Restored,
    Settings, budgets_of,
};
use rtwire_managerd::{FileStore, Store as _};
use rtwire_measure::bench::{Asked, BenchTable, Compared, Place, Row};
use rtwire_measure::noise::{NoiseOptions, NoiseRecorder};
use rtwire_plan::network::{Buffer, Defaults, Host, Link, Network, Switch};
use rtwire_plan::{Options, Plan, plan};

/// The widest budget, ns.
const WIDEST_NS: u64 = 20_000_000;
/// Nobody is refused for asking.
const UNLIMITED: Quotas = Quotas {
    connections: u32::MAX,
    rate_bytes_per_ms: u64::MAX,
    requests_per_second: u32::MAX,
    requests_at_once: u32::MAX,
};
const EDGES: usize = 32;
const HOSTS: usize = 1024;
/// The requests that are measured at each size.
const SAMPLES: usize = 2_048;
/// The requests that are stored as one.
const GROUPS: [usize; 3] = [1, 16, 64];
/// The groups of each size that are measured.
const GROUPS_OF_EACH_SIZE: usize = 256;
/// A place whose files are in memory, so that a sync takes no time: what is left is the manager's own.
const MEMORY: &str = "/dev/shm";
/// The changes that are stored as one where nothing is measured.
const FILLING: usize = 4_096;
/// The bytes of a connection in a store, about.
const RECORD_BYTES: usize = 150;

/// Returns a core switch, 32 switches on 10 Gbit/s around it, and 32 hosts on 1 Gbit/s at each.
fn network() -> Network {
    let mut network = Network {
        name: "hall".to_owned(),
        defaults: Defaults {
            frame_overhead_bytes: 24,
            ..Defaults::default()
        },
        ..Network::default()
    };
    let switch = |name: String| Switch {
        name,
        latency_ns: 2_000,
        buffer: Buffer {
            bytes: 64 << 20,
            ..Buffer::default()
        },
        queues: 4,
        priority_map: None,
        ..Switch::default()
    };
    let link = |a: String, b: String, rate_bps| Link {
        ends: [a, b],
        rate_bps,
        cable_delay_ns: 50,
    };
    network.switches.push(switch("core".to_owned()));
    for edge in 0..EDGES {
        network.switches.push(switch(format!("s{edge}")));
        let up = link(format!("s{edge}"), "core".to_owned(), 10_000_000_000);
        network.links.push(up);
    }
    for host in 0..HOSTS {
        network.hosts.push(Host {
            name: format!("h{host}"),
            queues: 4,
            priority_map: None,
            ..Host::default()
        });
        let edge = host * EDGES / HOSTS;
        let down = link(format!("h{host}"), format!("s{edge}"), 1_000_000_000);
        network.links.push(down);
    }
    network.check().unwrap();
    network
}

fn plan_of_the_hall() -> Arc<Plan> {
    Arc::new(plan(&network(), &Options::default()).unwrap())
}

/// Returns the needs of a small connection to a host.
fn small_connection(to: usize) -> Ask {
    Ask {
        listener: format!("h{to}"),
        carrier: Carrier::Udp,
        pcp: 4,
        vlan: None,
        frame_bytes: 60,
        rate_bytes_per_ms: 1,
        burst_bytes: 84,
        deadline_ns: None,
        interval_ns: None,
        source_port: 0,
        port: 0,
    }
}

/// The hosts of the network, each with an open session.
struct Hall {
    manager: Manager,
    headers: Vec<Header>,
    keys: Vec<Key>,
    requests: u128,
    random: Random,
    now_ns: u64,
}

impl Hall {
    fn new() -> Hall {
        let plan = plan_of_the_hall();
        let budgets = budgets_of(&plan, &[WIDEST_NS; 8]).unwrap();
        let keys: Vec<Key> = (0..HOSTS)
            .map(|host| {
                let mut bytes = [7; 32];
                bytes[..8].copy_from_slice(&(host as u64).to_be_bytes());
                Key::new(&bytes)
            })
            .collect();
        let named = keys.iter().enumerate();
        let named: HashMap<String, Key> = named
            .map(|(host, key)| (format!("h{host}"), key.clone()))
            .collect();
        let settings = Settings {
            quotas: UNLIMITED,
            ..Settings::default()
        };
        let manager = Manager::new(plan, &budgets, Restored::default(), named, settings).unwrap();
        let mut hall = Hall {
            manager,
            headers: Vec::new(),
            keys,
            requests: 0,
            random: Random(1),
            now_ns: 1_000_000_000,
        };
        for host in 0..HOSTS {
            let header = Header {
                host: format!("h{host}"),
                epoch: 0,
                session: 0,
                sequence: 0,
            };
            let hello = Question::Hello { nonce: 1 };
            let sealed = hall.keys[host].seal(hello.to_bytes(&header));
            let answer = hall.manager.datagram(hall.now_ns, "bench", &sealed).answer;
            let answer = answer.unwrap();
            let opened = hall.keys[host].open(&answer).unwrap();
            let (header, _, _) = Answer::from_bytes(opened).unwrap();
            hall.headers.push(Header {
                sequence: 0,
                ..header
            });
        }
        hall
    }

    /// Returns the datagram of a small connection between two random hosts.
    fn request(&mut self) -> (usize, Vec<u8>) {
        let from = self.random.below(HOSTS);
        let to = (from + 1 + self.random.below(HOSTS - 1)) % HOSTS;
        self.requests += 1;
        let ask = small_connection(to);
        let question = Question::Reserve {
            request: self.requests,
            only_ask: false,
            ask,
        };
        let header = &mut self.headers[from];
        header.sequence += 1;
        (from, self.keys[from].seal(question.to_bytes(header)))
    }

    fn decide(&mut self, datagram: &[u8]) -> (Change, Vec<u8>) {
        self.now_ns += 1_000;
        let outcome = self.manager.datagram(self.now_ns, "bench", datagram);
        let (Some(change), Some(answer)) = (outcome.change, outcome.answer) else {
            panic!("a request was not granted");
        };
        (change, answer)
    }

    /// Takes back what was measured, so that the size stays. By the hosts' own requests.
    fn release(&mut self, granted: &Granted) -> Change {
        let from: usize = granted.talker[1..].parse().unwrap();
        self.requests += 1;
        let question = Question::Release {
            request: self.requests,
            connection: granted.connection,
        };
        self.headers[from].sequence += 1;
        let sealed = self.keys[from].seal(question.to_bytes(&self.headers[from]));
        let outcome = self.manager.datagram(self.now_ns, "bench", &sealed);
        outcome.change.unwrap()
    }
}

fn granted(change: &Change) -> Granted {
    match change {
        Change::Admitted(stored) => stored.granted.clone(),
        Change::Released { .. } => panic!("not admitted"),
    }
}

/// The same numbers in each run.
struct Random(u64);

impl Random {
    /// Returns the next one, below 2^31.
    fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, limit: usize) -> usize {
        self.next() as usize % limit
    }

    /// Returns one from 0 to 1.
    fn uniform(&mut self) -> f64 {
        self.next() as f64 / f64::from(1_u32 << 31)
    }
}

fn quantile(sorted: &[f64], permille: usize) -> f64 {
    sorted[(sorted.len() * permille / 1000).min(sorted.len() - 1)]
}

fn rows_of(
    what: &str,
    count: usize,
    mut times_us: Vec<f64>,
    limit_us: Option<f64>,
    against: &[Compared],
) -> Vec<Row> {
    times_us.sort_by(f64::total_cmp);
    let samples = times_us.len() as u64;
    let row = |name: &str, permille, limit: Option<f64>| {
        let value = quantile(&times_us, permille);
        let floor_us = against
            .iter()
            .rfind(|one| one.name.ends_with("synced, p99"));
        let floor_us = floor_us.map_or(0.0, |floor| floor.value);
        // Nobody is faster than its floor: then this row cannot be judged.
        let judged = limit.filter(|limit| value <= *limit || floor_us <= *limit);
        let held = judged.map(|limit| value <= limit);
        Row {
            figure: format!("{what}, {count} connections, {name}"),
            value,
            unit: "µs".to_owned(),
            reach: limit.map(|limit| format!("at most {limit} µs")),
            held,
            why: match held {
                None if limit.is_some() => Some(format!(
                    "its floor, in the same moments, takes {floor_us:.0} µs"
                )),
                Some(false) => Some("a busy or slower machine".to_owned()),
                _ => None,
            },
            samples,
            against: against.to_vec(),
        }
    };
    vec![row("p50", 500, None), row("p99", 990, limit_us)]
}

/// A file beside a store: what appending to it and syncing takes is the disk's part of a durable answer.
struct Floor(std::fs::File);

impl Floor {
    fn beside(folder: &Path) -> Floor {
        Floor(std::fs::File::create(folder.join("floor")).unwrap())
    }

    /// Appends records as one, and syncs them. Returns the time, µs.
    fn append_us(&mut self, records: usize) -> f64 {
        use std::io::Write as _;
        let bytes = vec![0x5a; records * RECORD_BYTES];
        let begun = Instant::now();
        self.0.write_all(&bytes).unwrap();
        self.0.sync_data().unwrap();
        begun.elapsed().as_secs_f64() * 1e6
    }
}

/// Compares a durable answer with its floor, as it was in the same moments: what nobody is faster than.
fn beside_the_floor(floor: &str, mut times_us: Vec<f64>, against: &[Compared]) -> Vec<Compared> {
    times_us.sort_by(f64::total_cmp);
    let named = [("p50", 500), ("p99", 990)];
    let floor = named.map(|(name, permille)| Compared {
        name: format!("{floor}, {name}"),
        value: quantile(&times_us, permille),
    });
    [against, &floor].concat()
}

/// A store, and where it is.
struct Placed {
    name: &'static str,
    store: FileStore,
    floor: Floor,
}

impl Placed {
    fn open(folder: &Path, name: &'static str) -> Placed {
        Placed {
            name,
            store: FileStore::open(folder).unwrap(),
            floor: Floor::beside(folder),
        }
    }

    fn write(&mut self, changes: &[Change]) {
        self.store.write(changes).unwrap();
    }
}

fn measure(hall: &mut Hall, count: usize, stores: &mut [Placed]) -> Vec<Row> {
    // The stores have all connections, too: a large one takes longer to change.
    let mut write = |changes: &[Change]| stores.iter_mut().for_each(|one| one.write(changes));
    let mut changes = Vec::new();
    while hall.manager.connections() < count {
        let (_, datagram) = hall.request();
        changes.push(hall.decide(&datagram).0);
        if changes.len() == FILLING {
            write(&changes);
            changes.clear();
        }
    }
    write(&changes);
    let mut rows = Vec::new();
    let mut against = Vec::new();
    if count <= 1_000 {
        let begun = Instant::now();
        let planned = hall.manager.snapshot().plan().unwrap();
        against.push(Compared {
            name: format!("planning all {} streams anew, once", planned.streams.len()),
            value: begun.elapsed().as_secs_f64() * 1e6,
        });
    }
    let us = |begun: Instant| begun.elapsed().as_secs_f64() * 1e6;
    // In memory only.
    let mut times = Vec::new();
    for _ in 0..SAMPLES {
        let (_, datagram) = hall.request();
        let begun = Instant::now();
        let (change, _) = hall.decide(&datagram);
        times.push(us(begun));
        let _ = hall.release(&granted(&change));
    }
    rows.extend(rows_of(
        "request to answer, no store",
        count,
        times,
        Some(100.0),
        &against,
    ));
    for placed in stores {
        for group in GROUPS {
            rows.extend(grouped(hall, count, placed, group, &against));
        }
    }
    rows
}

/// Measures groups: each request waits for the others of its group, and for their one sync.
fn grouped(
    hall: &mut Hall,
    count: usize,
    placed: &mut Placed,
    group: usize,
    against: &[Compared],
) -> Vec<Row> {
    let (mut times, mut floor, mut spent) = (Vec::new(), Vec::new(), 0.0);
    for _ in 0..GROUPS_OF_EACH_SIZE {
        let asked: Vec<Vec<u8>> = (0..group).map(|_| hall.request().1).collect();
        let begun = Instant::now();
        let changes: Vec<Change> = asked
            .iter()
            .map(|datagram| hall.decide(datagram).0)
            .collect();
        placed.write(&changes);
        let took = begun.elapsed().as_secs_f64() * 1e6;
        spent += took;
        times.extend(std::iter::repeat_n(took, group));
        floor.push(placed.floor.append_us(group));
        let released = changes.iter().map(|change| hall.release(&granted(change)));
        let released: Vec<Change> = released.collect();
        placed.write(&released);
    }
    let samples = times.len() as u64;
    let name = placed.name;
    let mut rows = rows_of(
        &format!("request to durable answer, groups of {group}, {name}"),
        count,
        times,
        Some(1_000.0),
        &beside_the_floor(
            &format!("{group} records appended to a file and synced"),
            floor,
            against,
        ),
    );
    rows.push(Row {
        figure: format!(
            "admissions per second, durable, groups of {group}, {name}, {count} connections"
        ),
        value: samples as f64 / (spent / 1e6),
        unit: "1/s".to_owned(),
        reach: None,
        held: None,
        why: None,
        samples,
        against: Vec::new(),
    });
    rows
}

fn main() {
    let asked = Asked::from_command_line(&[], &[]);
    let noise = NoiseRecorder::start(NoiseOptions::beside_a_benchmark());
    let target = asked.out();
    std::fs::create_dir_all(&target).unwrap();
    let sizes: &[usize] = if asked.quick {
        &[10, 1_000]
    } else {
        &[10, 1_000, 100_000, 1_000_000]
    };
    let mut hall = Hall::new();
    let mut rows = Vec::new();
    // On the disk of the results, and in memory.
    let places = [
        (target.as_path(), "on the disk"),
        (Path::new(MEMORY), "in memory"),
    ];
    let folders = places.map(|(place, name)| (place, tempfile::tempdir_in(place).unwrap(), name));
    for count in sizes {
        eprintln!("{count} connections …");
        // Closed again at the end: the running manager opens it.
        let mut stores = folders
            .each_ref()
            .map(|(_, folder, name)| Placed::open(folder.path(), name));
        rows.extend(measure(&mut hall, *count, &mut stores));
        drop(stores);
        for (place, folder, name) in &folders {
            // In a copy, so that hall and stores go on as one.
            let copy = tempfile::tempdir_in(place).unwrap();
            for file in std::fs::read_dir(folder.path()).unwrap() {
                let file = file.unwrap();
                std::fs::copy(file.path(), copy.path().join(file.file_name())).unwrap();
            }
            rows.extend(daemon::rows(copy.path(), *count, name));
        }
    }
    let noise = noise.ok().and_then(|noise| noise.stop().ok());
    let table = BenchTable::of(asked.command(), noise, rows);
    table.publish(&target, "manager", Place::Whole);
}
