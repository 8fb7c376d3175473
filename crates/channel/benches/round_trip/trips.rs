//! Round trips over one transport, measured a stretch at a time: a client here, a server on a thread of its own. Many
//! transports are measured a little in each of many rounds, in an order drawn anew for each round. So disturbances of
//! the machine affect all alike.

use super::peers::{Mode, Peer};
use rtwire_sys::clock::{Clock, now_ns};
use rtwire_sys::{memory, sched};
use rtwire_testkit::NetnsPair;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

pub(crate) const SIZES: [usize; 5] = [1, 64, 256, 1024, 1450];
pub(crate) const PRIORITY: u8 = 50;
/// Round trips before each measured stretch, for caches and predictors.
pub(crate) const WARM_UP: usize = 20;

/// Two ends that do round trips.
pub(crate) trait Ends: Send {
    /// Adds the times of `count` round trips of `octets` each, in ns, after some for caches and predictors. Returns `false`
    /// if a value was lost, which ends the stretch.
    fn stretch(&mut self, octets: usize, count: usize, samples: &mut Vec<u64>) -> bool;
}

/// Two ends, and what they measured.
pub(crate) struct Trips {
    ends: Box<dyn Ends>,
    /// Round trips in ns, for each size.
    pub(crate) samples: [Vec<u64>; SIZES.len()],
    pub(crate) lost: u64,
    _pair: NetnsPair,
}

/// A client in this thread and a server in another.
pub(crate) struct Threads {
    client: Box<dyn Peer>,
    /// Number and length of the values that the server is to send back next.
    orders: Sender<(usize, usize)>,
    done: Receiver<()>,
}

impl Threads {
    /// Starts the server's thread on the core that the mode names.
    pub(crate) fn start((client, mut server): (Box<dyn Peer>, Box<dyn Peer>), mode: Mode) -> Self {
        let (orders, incoming) = mpsc::channel::<(usize, usize)>();
        let (finished, done) = mpsc::channel();
        thread::spawn(move || {
            prepare(mode.server_cpu());
            let mut buffer = [0; 2048];
            while let Ok((count, octets)) = incoming.recv() {
                for _ in 0..count {
                    if !server.receive(&mut buffer[..octets]) {
                        break;
                    }
                    server.send(&buffer[..octets]);
                }
                let _ = finished.send(());
            }
        });
        Self {
            client,
            orders,
            done,
        }
    }
}

impl Ends for Threads {
    fn stretch(&mut self, octets: usize, count: usize, samples: &mut Vec<u64>) -> bool {
        self.orders.send((WARM_UP + count, octets)).unwrap();
        let data = [0x42; 2048];
        let mut buffer = [0; 2048];
        let mut whole = true;
        for turn in 0..WARM_UP + count {
            let start = now_ns(Clock::Monotonic);
            self.client.send(&data[..octets]);
            if !self.client.receive(&mut buffer[..octets]) {
                whole = false;
                break;
            }
            let end = now_ns(Clock::Monotonic);
            if turn >= WARM_UP {
                samples.push(end - start);
            }
        }
        self.done.recv().unwrap();
        whole
    }
}

impl Trips {
    /// Takes two ends that are ready, and the pair that they are in.
    pub(crate) fn new(pair: NetnsPair, ends: impl Ends + 'static) -> Self {
        Self {
            ends: Box::new(ends),
            samples: SIZES.map(|_| Vec::new()),
            lost: 0,
            _pair: pair,
        }
    }

    fn stretch(&mut self, size: usize, count: usize) {
        let samples = &mut self.samples[size];
        self.lost += u64::from(!self.ends.stretch(SIZES[size], count, samples));
    }
}

/// Measures all lanes at all sizes on core 0, with `count` round trips of each in each round.
pub(crate) fn measure<Lane>(
    lanes: &mut [Lane],
    trips: impl Fn(&mut Lane) -> &mut Trips,
    (rounds, count): (usize, usize),
) {
    prepare(0);
    for lane in lanes.iter_mut() {
        let all = &mut trips(lane).samples;
        all.iter_mut().for_each(|own| own.reserve(rounds * count));
    }
    let mut random = Random(now_ns(Clock::Realtime) | 1);
    for _ in 0..rounds {
        let mut cells: Vec<(usize, usize)> = (0..lanes.len())
            .flat_map(|lane| (0..SIZES.len()).map(move |size| (lane, size)))
            .collect();
        random.shuffle(&mut cells);
        for (lane, size) in cells {
            trips(&mut lanes[lane]).stretch(size, count);
            // A pause for other threads: the kernel takes a core that is never given up away for tens of
            // milliseconds.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Prepares the calling thread; both ends get real-time priority, one core, and no page faults.
fn prepare(cpu: usize) {
    sched::set_cpu(cpu).unwrap();
    sched::set_fifo(PRIORITY).unwrap();
    memory::touch_stack();
}

/// A small random number generator.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    pub(crate) fn shuffle<T>(&mut self, list: &mut [T]) {
        for last in (1..list.len()).rev() {
            list.swap(last, self.below(last + 1));
        }
    }
}

/// Returns the smallest values in µs that at least these shares of the samples do not exceed.
pub(crate) fn quantiles<const N: usize>(samples: &[u64], permille: [usize; N]) -> [f64; N] {
    let mut sorted = samples.to_vec();
    sorted.sort_unstable();
    permille.map(|permille| match sorted.len() {
        0 => f64::NAN,
        n => sorted[(n * permille).div_ceil(1000).clamp(1, n) - 1] as f64 / 1000.0,
    })
}
