//! The controlled node's PRes: what the driver answers with, and to which frames.

use super::layout::{BUFFERS, Control, PREPARED_WORDS, Response};
use super::{Program, prepare};
use rtwire_powerlink::prepared;
use rtwire_wire::Arm;
use rtwire_wire::powerlink::node;
use std::sync::atomic::{Ordering, fence};

/// Writes the PRes into the next buffer, and then shows it to the driver. The port's owner is the only writer.
pub(super) fn prepare_response(program: &Program, frame: &[u8]) {
    let Some(version) = program.response.word(0, Response::Version as usize) else {
        return;
    };
    let next = version.load(Ordering::Relaxed) + 1;
    let at = Response::Prepared as usize + (next % BUFFERS) as usize * PREPARED_WORDS;
    // The version stored last time comes before what is overwritten now: a program that still copies this buffer sees it.
    fence(Ordering::SeqCst);
    prepare(&program.response, 0, at, frame);
    version.store(next, Ordering::Release);
}

/// Arms the PRes, and renews it: as of `cycle`, which the program has counted for the frame that the node was shown. A program
/// that reads old frames renews for old cycles.
pub(super) fn arm(program: &Program, arm: &Arm, cycle: u64) {
    if let Some(word) = program.response.word(0, Response::Renewed as usize) {
        word.store(cycle, Ordering::Relaxed);
    }
    if arm.cue == prepared::PREQ {
        set_armed(program, 1);
    } else if arm.cue == prepared::pres(node::MN) {
        program.set(Control::AfterNs, arm.after_ns);
        program.set(Control::ChainedIn, 1);
    }
}

pub(super) fn disarm(program: &Program) {
    set_armed(program, 0);
    program.set(Control::ChainedIn, 0);
}

fn set_armed(program: &Program, armed: u64) {
    if let Some(word) = program.response.word(0, Response::Armed as usize) {
        word.store(armed, Ordering::Release);
    }
}
