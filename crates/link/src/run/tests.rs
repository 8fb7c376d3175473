//! Tests of the loop with a port that holds frames until their instant: frames handed over and when, frames that wait
//! behind them, and spinning.
//! ETF itself is in `tests/launch.rs`, run in the kernel lab.

use super::*;
use rtwire_wire::Outbox;

const MS: u64 = 1_000_000;

/// A frame that the port was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Given {
    /// To be sent at once, at this time.
    Now { kind: u8, at_ns: u64 },
    /// Handed over ahead of its instant.
    Ahead {
        kind: u8,
        at_ns: u64,
        launch_ns: u64,
    },
}

/// A port that only pretends to hold frames.
#[derive(Default)]
struct Keeper {
    window: Option<LaunchWindow>,
    refuses: bool,
    given: Vec<Given>,
    /// Arrival times of frames that wait to be read.
    arrived_ns: Vec<u64>,
    /// Times of polls and of sleeps.
    looks: std::cell::RefCell<Vec<u64>>,
}

impl Port for Keeper {
    fn send(&mut self, frame: &[u8]) -> Result<(), LinkError> {
        self.given.push(Given::Now {
            kind: frame[0],
            at_ns: now_ns(),
        });
        Ok(())
    }

    fn launch_window(&self) -> Option<LaunchWindow> {
        self.window
    }

    fn send_at(&mut self, frame: &[u8], launch_ns: u64) -> Result<(), LinkError> {
        self.given.push(Given::Ahead {
            kind: frame[0],
            at_ns: now_ns(),
            launch_ns,
        });
        if self.refuses {
            return Err(LinkError::LaunchRefused { launch_ns });
        }
        Ok(())
    }

    fn receive(&mut self, show: &mut dyn FnMut(Arrived<'_>)) -> Result<bool, LinkError> {
        let arrived_ns = self.arrived_ns.pop();
        if arrived_ns.is_some() {
            show(Arrived {
                at_ns: arrived_ns,
                frame: &[0; 60],
                offload: None,
            });
        }
        Ok(arrived_ns.is_some())
    }

    fn is_ready(&self) -> bool {
        self.looks.borrow_mut().push(now_ns());
        false
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError> {
        std::thread::sleep(timeout);
        Ok(())
    }
}

/// Sends one frame for an instant `ahead_ns` after its only moment, one behind it, and one for an earlier instant.
struct Script {
    moment_ns: Option<u64>,
    ahead_ns: u64,
    launch_ns: u64,
}

impl Node for Script {
    fn start(&mut self, now_ns: u64, _: &mut dyn Outbox) {
        self.moment_ns = Some(now_ns + 5 * MS);
    }

    fn frame(&mut self, _: u64, _: &[u8], _: &mut dyn Outbox) {}

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        self.moment_ns = None;
        self.launch_ns = now_ns + self.ahead_ns;
        outbox.send(&[1; 60], Some(self.launch_ns));
        outbox.send(&[2; 60], None);
        outbox.send(&[3; 60], Some(self.launch_ns - 1));
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.moment_ns
    }
}

fn play(keeper: Keeper, ahead_ns: u64) -> (u64, Keeper, RunStatistics) {
    let config = RunConfig {
        spin_ns: 2 * MS,
        linger_ns: 50 * MS,
        queue_frames: 8,
    };
    let mut runner = Runner::new(keeper, &config);
    let mut script = Script {
        moment_ns: None,
        ahead_ns,
        launch_ns: 0,
    };
    let stop = AtomicBool::new(false);
    let ended = runner.run(&mut script, &stop, |_, keeper, _| {
        let sent = keeper.given.iter().filter(|given| match given {
            Given::Now { .. } => true,
            Given::Ahead { .. } => !keeper.refuses,
        });
        stop.store(sent.count() == 3, Ordering::Relaxed);
    });
    assert!(ended.is_ok(), "{ended:?}");
    (script.launch_ns, runner.port, runner.statistics)
}

fn window() -> Option<LaunchWindow> {
    Some(LaunchWindow {
        earliest_ns: 60 * MS,
        latest_ns: 10 * MS,
    })
}

#[test]
fn a_frame_is_handed_over_ahead_and_what_is_behind_it_leaves_from_its_instant_on() {
    // A machine that stalls for 50 ms hands nothing over; then the test is repeated.
    let (launch_ns, keeper, statistics) = (0..20)
        .map(|_| {
            let keeper = Keeper {
                window: window(),
                ..Keeper::default()
            };
            play(keeper, 80 * MS)
        })
        .find(|(.., statistics)| statistics.launched > 0)
        .expect("this machine stalled twenty times");
    let [
        Given::Ahead {
            kind: 1,
            at_ns,
            launch_ns: told_ns,
        },
        Given::Now {
            kind: 2,
            at_ns: second_ns,
        },
        third,
    ] = keeper.given[..]
    else {
        panic!("{:?}", keeper.given);
    };
    assert_eq!(told_ns, launch_ns);
    let left_ns = launch_ns - at_ns;
    assert!(left_ns <= 60 * MS, "{left_ns} ns ahead");
    assert!(second_ns >= launch_ns);
    // Its own instant has passed when its turn comes.
    assert!(matches!(third, Given::Now { kind: 3, .. }), "{third:?}");
    assert_eq!((statistics.launched, statistics.sent), (1, 3));
    assert_eq!(statistics.unlaunched, 1, "the third, which came too late");
    // The loop sleeps while the frame is held, however long it lingers: it looks for a frame once, and not again.
    let looks = keeper.looks.borrow();
    let while_kept = looks.iter().filter(|at| (at_ns..launch_ns).contains(at));
    assert!(while_kept.count() <= 1);
}

#[test]
fn a_refused_frame_is_sent_at_its_instant() {
    let keeper = Keeper {
        window: window(),
        refuses: true,
        ..Keeper::default()
    };
    let (launch_ns, keeper, statistics) = play(keeper, 80 * MS);
    let sent: Vec<(u8, u64)> = keeper
        .given
        .iter()
        .filter_map(|given| match *given {
            Given::Now { kind, at_ns } => Some((kind, at_ns)),
            Given::Ahead { .. } => None,
        })
        .collect();
    let kinds: Vec<u8> = sent.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [1, 2, 3]);
    assert!(sent.iter().all(|(_, at_ns)| *at_ns >= launch_ns));
    assert_eq!((statistics.launched, statistics.sent), (0, 3));
    assert_eq!(statistics.unlaunched, 2);
}

#[test]
fn what_is_too_late_for_the_window_or_has_none_is_sent_at_its_instant() {
    for (window, unlaunched) in [(window(), 2), (None, 0)] {
        let keeper = Keeper {
            window,
            ..Keeper::default()
        };
        let (launch_ns, keeper, statistics) = play(keeper, 5 * MS);
        for given in &keeper.given {
            let Given::Now { at_ns, .. } = given else {
                panic!("{given:?}");
            };
            assert!(*at_ns >= launch_ns);
        }
        assert_eq!((statistics.unlaunched, statistics.sent), (unlaunched, 3));
    }
}

/// Sends at its only moment, once for an instant behind it, and in reply to a frame; records the reported times.
#[derive(Default)]
struct Told {
    moment_ns: Option<u64>,
    took_ns: Vec<u64>,
    /// The time for which the program stands still in the moment's call, ns.
    held_up_ns: u64,
}

impl Node for Told {
    fn start(&mut self, now_ns: u64, _: &mut dyn Outbox) {
        self.moment_ns = Some(now_ns);
    }

    fn frame(&mut self, _: u64, _: &[u8], outbox: &mut dyn Outbox) {
        outbox.send(&[3; 60], None);
    }

    fn moment(&mut self, now_ns: u64, outbox: &mut dyn Outbox) {
        self.moment_ns = None;
        std::thread::sleep(Duration::from_nanos(self.held_up_ns));
        outbox.send(&[1; 60], None);
        outbox.send(&[2; 60], Some(now_ns + 5000 * MS));
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.moment_ns
    }

    fn sending_took(&mut self, took_ns: u64) {
        self.took_ns.push(took_ns);
    }
}

#[test]
fn a_node_is_told_what_held_its_frames_up_since_its_call() {
    const HELD_UP_NS: u64 = 2000 * MS;
    let mut runner = Runner::new(Keeper::default(), &RunConfig::default());
    let mut node = Told {
        held_up_ns: HELD_UP_NS,
        ..Told::default()
    };
    let stop = AtomicBool::new(false);
    let ended = runner.run(&mut node, &stop, |_, keeper, _| {
        stop.store(keeper.given.len() == 2, Ordering::Relaxed);
    });
    assert!(ended.is_ok(), "{ended:?}");
    let [first, rest @ ..] = &node.took_ns[..] else {
        panic!("the node was told nothing");
    };
    assert!(*first >= HELD_UP_NS, "{first}");
    // A frame held until its instant does not count as delayed.
    assert!(!rest.is_empty());
    assert!(rest.iter().all(|took| *took < HELD_UP_NS), "{rest:?}");
}

#[test]
fn what_held_frames_up_is_told_once() {
    const HELD_UP_NS: u64 = 2000 * MS;
    let mut runner = Runner::new(Keeper::default(), &RunConfig::default());
    let mut node = Told::default();
    let stop = AtomicBool::new(false);
    let mut begun = false;
    let ended = runner.run(&mut node, &stop, |node, keeper, now_ns| {
        node.moment_ns = None;
        if !core::mem::replace(&mut begun, true) {
            // Two frames arrive now, and are read when the machine goes on.
            keeper.arrived_ns = vec![now_ns + 1, now_ns];
            std::thread::sleep(Duration::from_nanos(HELD_UP_NS));
        }
        stop.store(node.took_ns.len() == 2, Ordering::Relaxed);
    });
    assert!(ended.is_ok(), "{ended:?}");
    let [first, second] = node.took_ns[..] else {
        panic!("{:?}", node.took_ns);
    };
    assert!(
        first >= HELD_UP_NS && second < HELD_UP_NS,
        "{first} {second}"
    );
}

#[test]
fn what_is_due_leaves_before_the_applications_turn() {
    const TURN_NS: u64 = 50 * MS;
    let mut runner = Runner::new(Keeper::default(), &RunConfig::default());
    let mut node = Told::default();
    let stop = AtomicBool::new(false);
    let (mut begun_ns, mut left_first) = (None, None);
    let ended = runner.run(&mut node, &stop, |node, keeper, now_ns| {
        node.moment_ns = None;
        match begun_ns {
            // A request arrives; the reply to it is due at once.
            None => {
                keeper.arrived_ns = vec![now_ns];
                begun_ns = Some(now_ns);
            }
            // The application's turn behind the reply is a long one.
            Some(_) if left_first.is_none() => {
                left_first = Some(keeper.given.len() == 1);
                std::thread::sleep(Duration::from_nanos(TURN_NS));
            }
            Some(_) => stop.store(true, Ordering::Relaxed),
        }
    });
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(left_first, Some(true), "the reply waited for the turn");
    // Nor does the turn count as time that sending took.
    assert!(
        node.took_ns.iter().all(|took| *took < TURN_NS),
        "{:?}",
        node.took_ns
    );
}

/// A port behind whose first empty look a frame comes, and the program stands still for a while.
#[derive(Default)]
struct Stalling {
    looks: u32,
    arrived_ns: Option<u64>,
}

/// The time for which the program stands still, ns.
const STOOD_STILL_NS: u64 = 50 * MS;

impl Port for Stalling {
    fn send(&mut self, _: &[u8]) -> Result<(), LinkError> {
        Ok(())
    }

    fn receive(&mut self, show: &mut dyn FnMut(Arrived<'_>)) -> Result<bool, LinkError> {
        self.looks += 1;
        if self.looks == 1 {
            self.arrived_ns = Some(now_ns());
            std::thread::sleep(Duration::from_nanos(STOOD_STILL_NS));
            return Ok(false);
        }
        let arrived_ns = self.arrived_ns.take();
        if arrived_ns.is_some() {
            show(Arrived {
                at_ns: arrived_ns,
                frame: &[0; 60],
                offload: None,
            });
        }
        Ok(arrived_ns.is_some())
    }

    fn is_ready(&self) -> bool {
        self.arrived_ns.is_some()
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError> {
        std::thread::sleep(timeout);
        Ok(())
    }
}

/// Notes what it is called for, with the time that it is told and the time that it is.
#[derive(Default)]
struct Noting {
    moment_ns: Option<u64>,
    calls: Vec<(bool, u64, u64)>,
}

impl Node for Noting {
    fn start(&mut self, told_ns: u64, _: &mut dyn Outbox) {
        // Due while the program stands still.
        self.moment_ns = Some(told_ns + 1);
    }

    fn frame(&mut self, told_ns: u64, _: &[u8], _: &mut dyn Outbox) {
        self.calls.push((true, told_ns, now_ns()));
    }

    fn moment(&mut self, told_ns: u64, _: &mut dyn Outbox) {
        self.moment_ns = None;
        self.calls.push((false, told_ns, now_ns()));
    }

    fn wake_at_ns(&self) -> Option<u64> {
        self.moment_ns
    }
}

#[test]
fn what_came_before_a_stop_is_as_old_as_it_is() {
    let mut runner = Runner::new(Stalling::default(), &RunConfig::default());
    let mut node = Noting::default();
    let stop = AtomicBool::new(false);
    let ended = runner.run(&mut node, &stop, |node, _, _| {
        stop.store(node.calls.len() == 2, Ordering::Relaxed);
    });
    assert!(ended.is_ok(), "{ended:?}");
    let [frame, moment] = node.calls[..] else {
        panic!("{:?}", node.calls);
    };
    assert!(frame.0 && !moment.0, "the frame came before the moment");
    let age_ns = frame.2 - frame.1;
    assert!(age_ns >= STOOD_STILL_NS, "{age_ns} ns");
    assert!(moment.1 >= frame.1);
}
