//! The loop with a port that sends prepared frames by itself, and with one that does not.

use super::*;
use rtwire_wire::{Action, Arm, Cue, Outbox, Slot};

/// A step that a port with an offload has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Prepared,
    Armed,
    Due,
    Leaves,
    Sent,
    Disarmed,
    Stopped,
}

#[derive(Default)]
struct Slots {
    steps: Vec<Step>,
    /// True if the frame that is being shown was answered.
    answered: bool,
}

impl Offload for Slots {
    fn act(&mut self, action: Action<'_>) -> bool {
        self.steps.push(match action {
            Action::Prepare { .. } => Step::Prepared,
            Action::Arm(_) => Step::Armed,
            Action::Disarm { .. } => Step::Disarmed,
            Action::Due { .. } => Step::Due,
        });
        matches!(action, Action::Due { .. }) && self.answered
    }

    fn leaves(&mut self, _: Slot) {
        self.steps.push(Step::Leaves);
    }

    fn has_left(&self, slot: Slot) -> bool {
        slot == Slot(9)
    }

    fn stop(&mut self) {
        self.steps.push(Step::Stopped);
    }
}

/// Answers the first of the frames that come.
#[derive(Default)]
struct Answering {
    slots: Slots,
    to_come: u32,
    /// It sends nothing by itself.
    without: bool,
}

impl Port for Answering {
    fn send(&mut self, _: &[u8]) -> Result<(), LinkError> {
        self.slots.steps.push(Step::Sent);
        Ok(())
    }

    fn receive(&mut self, show: &mut dyn FnMut(Arrived<'_>)) -> Result<bool, LinkError> {
        let Some(left) = self.to_come.checked_sub(1) else {
            return Ok(false);
        };
        self.to_come = left;
        self.slots.answered = left > 0;
        show(Arrived {
            at_ns: None,
            frame: &[0; 60],
            offload: (!self.without).then_some(&mut self.slots as &mut dyn Offload),
        });
        self.slots.answered = false;
        Ok(true)
    }

    fn offload(&mut self) -> Option<&mut dyn Offload> {
        (!self.without).then_some(&mut self.slots as &mut dyn Offload)
    }

    fn is_ready(&self) -> bool {
        self.to_come > 0
    }

    fn wait(&mut self, timeout: Duration) -> Result<(), LinkError> {
        std::thread::sleep(timeout);
        Ok(())
    }
}

/// Replies to each frame from a slot; the application makes it stop after two.
#[derive(Default)]
struct Replying {
    frames: u32,
    asked_to_stop: bool,
    seen: [bool; 2],
}

const REPLY: Slot = Slot(3);

impl Node for Replying {
    fn start(&mut self, _: u64, outbox: &mut dyn Outbox) {
        outbox.act(Action::Prepare {
            slot: REPLY,
            frame: &[1; 60],
        });
        outbox.act(Action::Arm(Arm {
            slot: REPLY,
            cue: Cue(7),
            after_ns: 0,
            behind: None,
        }));
    }

    fn frame(&mut self, _: u64, _: &[u8], outbox: &mut dyn Outbox) {
        self.frames += 1;
        self.seen = [outbox.has_left(Slot(9)), outbox.has_left(REPLY)];
        outbox.act(Action::Due {
            slot: REPLY,
            frame: &[1; 60],
            launch_ns: None,
        });
    }

    fn moment(&mut self, _: u64, _: &mut dyn Outbox) {}

    fn wake_at_ns(&self) -> Option<u64> {
        None
    }

    fn settle(&mut self, outbox: &mut dyn Outbox) {
        if std::mem::take(&mut self.asked_to_stop) {
            outbox.act(Action::Disarm { slot: REPLY });
        }
    }
}

#[test]
fn actions_reach_the_port_and_what_has_left_is_not_sent_again() {
    let port = Answering {
        to_come: 2,
        ..Answering::default()
    };
    let mut runner = Runner::new(port, &RunConfig::default());
    let (mut node, stop) = (Replying::default(), AtomicBool::new(false));
    let mut done = false;
    let ended = runner.run(&mut node, &stop, |node, _, _| {
        if node.frames == 2 && !std::mem::replace(&mut done, true) {
            node.asked_to_stop = true;
            stop.store(true, Ordering::Relaxed);
        }
    });
    assert!(ended.is_ok(), "{ended:?}");
    let expected = [
        Step::Prepared,
        Step::Armed,
        // Answered by the port; then one that the loop sends.
        Step::Due,
        Step::Due,
        Step::Leaves,
        Step::Sent,
        // The application's turn comes behind what was due.
        Step::Disarmed,
        Step::Stopped,
    ];
    assert_eq!(runner.port.slots.steps, expected);
    let statistics = runner.statistics;
    assert_eq!((statistics.sent, statistics.offloaded), (1, 1));
    assert_eq!(node.seen, [true, false]);
}

#[test]
fn a_port_without_an_offload_sends_what_is_due() {
    let port = Answering {
        to_come: 2,
        without: true,
        ..Answering::default()
    };
    let mut runner = Runner::new(port, &RunConfig::default());
    let (mut node, stop) = (Replying::default(), AtomicBool::new(false));
    let ended = runner.run(&mut node, &stop, |node, _, _| {
        stop.store(node.frames == 2, Ordering::Relaxed);
    });
    assert!(ended.is_ok(), "{ended:?}");
    assert_eq!(runner.port.slots.steps, [Step::Sent, Step::Sent]);
    let statistics = runner.statistics;
    assert_eq!((statistics.sent, statistics.offloaded), (2, 0));
    assert_eq!(node.seen, [false, false]);
}
