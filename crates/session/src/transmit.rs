//! Checks that a transmit path keeps the plan's assumptions.
//!
//! The plan's delay at the host's own port is that of its queues: most urgent first, with gates and shapers.
//! Frames that bypass the queueing discipline meet none of these. Where the card keeps launch times, they go to the same
//! queue of the card to which ETF would hand them.

use rtwire_channel::{TxPath, card_queue, shared_memory_queue};
use rtwire_plan::Plan;
use rtwire_sys::interface::Interface;

use crate::error::SessionError;
use crate::options::SessionOptions;
use crate::queues;
use crate::task::{Assignment, TalkerTask};

/// Refuses a transmit path on which the plan's promises would not hold, or that the host's streams cannot share.
pub(crate) fn check(
    plan: &Plan,
    options: &SessionOptions,
    assignment: &Assignment,
    interface: &Interface,
) -> Result<(), SessionError> {
    if !options.path.goes_past_the_queue() {
        return Ok(());
    }
    let past = |task: &&TalkerTask| task.path == options.path;
    let talkers: Vec<&TalkerTask> = assignment.talkers.iter().filter(past).collect();
    match options.path {
        TxPath::Xdp => one_for_each_queue(options.path, &talkers, interface, |task| {
            Ok(shared_memory_queue(&interface.name, task.pcp.into()))
        })?,
        TxPath::XdpLaunch => {
            return one_for_each_queue(options.path, &talkers, interface, |task| {
                let (queue, _) = card_queue(interface, task.pcp.into())
                    .map_err(|error| SessionError::Work(error.to_string()))?;
                Ok(queue)
            });
        }
        _ => {}
    }
    if options.no_admission || talkers.is_empty() {
        return Ok(());
    }
    let refused = |why: String| SessionError::PastTheQueue {
        path: options.path.name(),
        interface: interface.name.clone(),
        why,
    };
    // The device of the module `uman` has no queue; the interface below it has.
    let below = match options.path {
        TxPath::Uman => rtwire_sys::uman::below(interface)?,
        _ => None,
    };
    let root = queues::root_of(below.as_ref().unwrap_or(interface))?;
    if !queues::hands_on(&root) {
        return Err(refused(format!("its `{root}`")));
    }
    let classes = queues::classes_sent(plan, assignment);
    if classes > 1 {
        return Err(refused(format!("the order of {classes} priorities")));
    }
    Ok(())
}

/// Refuses two streams with one transmit queue: AF_XDP has one sender for each queue.
fn one_for_each_queue(
    path: TxPath,
    talkers: &[&TalkerTask],
    interface: &Interface,
    queue: impl Fn(&TalkerTask) -> Result<u32, SessionError>,
) -> Result<(), SessionError> {
    let mut taken: Vec<(u32, &TalkerTask)> = Vec::new();
    for one in talkers {
        let queue = queue(one)?;
        if let Some((_, other)) = taken.iter().find(|(number, _)| *number == queue) {
            return Err(SessionError::OneSender {
                path: path.name(),
                instead: if path.has_launch_times() {
                    "launch"
                } else {
                    "direct` or `qdisc"
                },
                streams: [other.name.clone(), one.name.clone()],
                queue,
                interface: interface.name.clone(),
            });
        }
        taken.push((queue, one));
    }
    Ok(())
}
