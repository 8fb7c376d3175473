//! Finds what an interface lacks for the plan's promises. Reads the kernel's own listing of its queueing disciplines.

use rtwire_plan::Plan;
use rtwire_sys::interface::Interface;

use crate::error::SessionError;
use crate::queues;
use crate::task::Assignment;

/// Something that the plan counts on and that the interface lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Missing {
    /// The missing thing, and what is there in its place.
    pub what: String,
    /// The way to get it.
    pub remedy: String,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.what, self.remedy)
    }
}

/// Returns what the interface of an assignment lacks for the plan: gates, the order of priorities, launch times.
pub(crate) fn of(
    plan: &Plan,
    assignment: &Assignment,
    interface: &Interface,
) -> Result<Vec<Missing>, SessionError> {
    let (host, name) = (&assignment.host, &interface.name);
    let root = queues::root_of(interface)?;
    let apply = format!("rtwire apply PLAN --host {host} --interface {name}");
    let mut missing = Vec::new();
    let mut ports = plan.ports.iter().filter(|port| port.node == *host);
    if root != "taprio" && ports.any(|port| port.gates.is_some()) {
        missing.push(Missing {
            what: format!(
                "the plan has gates for `{host}`, and `{name}` has `{root}` in place of TAPRIO"
            ),
            remedy: apply.clone(),
        });
    }
    let classes = queues::classes_sent(plan, assignment);
    if classes > 1 && queues::hands_on(&root) {
        missing.push(Missing {
            what: format!("the plan has {classes} priorities at `{name}`, and its `{root}` does not keep their order"),
            remedy: apply,
        });
    }
    let launched = assignment.talkers.iter();
    let launched = launched.filter(|task| task.launch.is_some() && !task.path.has_launch_times());
    let streams: Vec<&str> = launched.map(|task| task.name.as_str()).collect();
    if !streams.is_empty() {
        missing.push(Missing {
            what: format!(
                "launch times of {}: frames leave when their thread wakes, not when a queue launches them",
                streams.join(", ")
            ),
            remedy: "ETF at the interface, and --path launch".to_owned(),
        });
    }
    Ok(missing)
}
