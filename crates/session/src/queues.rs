//! The queues of a host's interface: the kernel's root discipline, and the classes in which the host's streams leave.

use rtwire_plan::Plan;
use rtwire_sys::interface::Interface;
use rtwire_sys::qdisc::{self, ROOT};

use crate::error::SessionError;
use crate::task::Assignment;

/// Disciplines that only hand frames on, in order or by flow: bypassing them breaks no promise.
const PLAIN: [&str; 7] = [
    "noqueue",
    "pfifo_fast",
    "pfifo",
    "bfifo",
    "mq",
    "fq_codel",
    "fq",
];

/// Returns the kind of an interface's root discipline; `noqueue` where the kernel lists none.
pub(crate) fn root_of(interface: &Interface) -> Result<String, SessionError> {
    let mut all = qdisc::of(interface)?.into_iter();
    let root = all.find(|discipline| discipline.parent == ROOT);
    Ok(root.map_or_else(|| "noqueue".to_owned(), |root| root.kind))
}

/// Returns true if a discipline only hands frames on, without an order of priorities, gates or shapers.
pub(crate) fn hands_on(kind: &str) -> bool {
    PLAIN.contains(&kind)
}

/// Returns the number of priority classes at the host's own port that streams of this assignment use.
pub(crate) fn classes_sent(plan: &Plan, assignment: &Assignment) -> usize {
    let sent = |flow: &String| assignment.talkers.iter().any(|task| task.name == *flow);
    plan.ports
        .iter()
        .filter(|port| port.node == assignment.host)
        .flat_map(|port| &port.classes)
        .filter(|class| class.flows.iter().any(sent))
        .count()
}
