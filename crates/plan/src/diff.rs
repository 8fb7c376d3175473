//! Compares two plans: the effect of a changed description on its promises.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::cyclic::CyclicPort;
use crate::meters::FlowMeter;
use crate::plan::Plan;
use crate::recovery::Recovery;
use crate::show::{grouped, show_ns};

/// The differences between two plans. Equal parts are omitted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlanDiff {
    /// The changed promises, by stream and listener.
    pub promises: Vec<PromiseChange>,
    /// The changed recoveries of redundant streams, by stream.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recoveries: Vec<RecoveryChange>,
    /// The changed needs for memory, by port.
    pub ports: Vec<PortChange>,
    /// The changed flow meters, by switch, host and flow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub meters: Vec<MeterChange>,
    /// The cycle of cyclic queueing before and now, nanoseconds, if it differs; absent in a plan without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycle_ns: Option<[Option<u64>; 2]>,
    /// The changed ports of cyclic streams.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cycles: Vec<CycleChange>,
}

/// A promise in the old plan and in the new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PromiseChange {
    /// The stream.
    pub stream: String,
    /// The listener.
    pub listener: String,
    /// The plans that have it: both, or only one.
    pub change: Change,
    /// The promise before, nanoseconds; absent without a promise.
    pub old_ns: Option<u64>,
    /// The promise now, nanoseconds; absent without a promise.
    pub new_ns: Option<u64>,
    /// True if its route has changed.
    pub route_changed: bool,
    /// The priorities of its frames before and now, if they differ: at each port of the route where a router is on it,
    /// else one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priorities: Option<[Vec<u8>; 2]>,
}

/// The recovery of a redundant stream in the old plan and in the new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecoveryChange {
    /// The stream.
    pub stream: String,
    /// The plans that have it: both, or only one.
    pub change: Change,
    /// The recovery before; absent without one.
    pub old: Option<Recovery>,
    /// The recovery now; absent without one.
    pub new: Option<Recovery>,
}

/// A port's need for memory in the old plan and in the new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortChange {
    /// The node that sends.
    pub node: String,
    /// The neighbour.
    pub port: String,
    /// The plans that have it: both, or only one.
    pub change: Change,
    /// The need before, bytes; absent if unbounded.
    pub old_bytes: Option<u64>,
    /// The need now, bytes; absent if unbounded.
    pub new_bytes: Option<u64>,
}

/// A flow meter in the old plan and in the new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeterChange {
    /// The plans that have it: both, or only one.
    pub change: Change,
    /// The meter before; absent without one.
    pub old: Option<FlowMeter>,
    /// The meter now; absent without one.
    pub new: Option<FlowMeter>,
}

/// The cycles of a port in the old plan and in the new one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CycleChange {
    /// The plans that have it: both, or only one.
    pub change: Change,
    /// The port before; absent without cyclic streams.
    pub old: Option<CyclicPort>,
    /// The port now; absent without cyclic streams.
    pub new: Option<CyclicPort>,
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Present in the new plan only.
    Added,
    /// Present in the old plan only.
    Removed,
    /// Present in both plans, but different.
    Changed,
}

type Both<T> = (Option<T>, Option<T>);

/// The promise, if there is one, its route, and the priorities on it.
type Promised<'a> = (Option<u64>, &'a [String], Vec<u8>);

fn change<T: PartialEq>(both: &Both<T>) -> Option<Change> {
    match both {
        (Some(old), Some(new)) if old == new => None,
        (Some(_), Some(_)) => Some(Change::Changed),
        (Some(_), None) => Some(Change::Removed),
        (None, _) => Some(Change::Added),
    }
}

/// Returns the place of the new plan, or that of the old one.
fn of<T>(both: &mut Both<T>, is_new: bool) -> &mut Option<T> {
    if is_new { &mut both.1 } else { &mut both.0 }
}

/// Returns the changes from `old` to `new`.
#[must_use]
pub fn diff(old: &Plan, new: &Plan) -> PlanDiff {
    let mut promises: BTreeMap<(&str, &str), Both<Promised<'_>>> = BTreeMap::new();
    let mut ports: BTreeMap<(&str, &str), Both<Option<u64>>> = BTreeMap::new();
    let mut recoveries: BTreeMap<&str, Both<&Recovery>> = BTreeMap::new();
    let mut meters: BTreeMap<(&str, &str, &str, bool), Both<&FlowMeter>> = BTreeMap::new();
    let mut cycles: BTreeMap<(&str, &str), Both<&CyclicPort>> = BTreeMap::new();
    for (plan, is_new) in [(old, false), (new, true)] {
        for stream in &plan.streams {
            if let Some(recovery) = &stream.recovery {
                let both = recoveries.entry(&stream.name).or_default();
                *of(both, is_new) = Some(recovery);
            }
            for promise in &stream.promises {
                let both = promises
                    .entry((&stream.name, &promise.listener))
                    .or_default();
                let priorities = promise.priorities_on_the_way(stream.identity.pcp);
                *of(both, is_new) = Some((promise.delay_ns, &promise.route, priorities));
            }
        }
        for port in &plan.ports {
            let both = ports.entry((&port.node, &port.port)).or_default();
            *of(both, is_new) = Some(port.backlog_bytes);
        }
        for meter in &plan.meters {
            let key = (
                &*meter.switch,
                &*meter.from,
                &*meter.flow,
                meter.best_effort,
            );
            let both = meters.entry(key).or_default();
            *of(both, is_new) = Some(meter);
        }
        for port in plan.cyclic.iter().flat_map(|cyclic| &cyclic.ports) {
            let both = cycles.entry((&port.node, &port.port)).or_default();
            *of(both, is_new) = Some(port);
        }
    }
    let promises = promises
        .into_iter()
        .filter_map(|((stream, listener), both)| {
            let change = change(&both)?;
            let ns = |promised: &Option<Promised<'_>>| promised.as_ref().and_then(|it| it.0);
            let (old_ns, new_ns) = (ns(&both.0), ns(&both.1));
            let (route_changed, priorities) = match both {
                (Some(old), Some(new)) => {
                    let priorities = (old.2 != new.2).then_some([old.2, new.2]);
                    (old.1 != new.1, priorities)
                }
                _ => (false, None),
            };
            Some(PromiseChange {
                stream: stream.to_owned(),
                listener: listener.to_owned(),
                change,
                old_ns,
                new_ns,
                route_changed,
                priorities,
            })
        });
    let ports = ports.into_iter().filter_map(|((node, port), both)| {
        Some(PortChange {
            node: node.to_owned(),
            port: port.to_owned(),
            change: change(&both)?,
            old_bytes: both.0.flatten(),
            new_bytes: both.1.flatten(),
        })
    });
    let recoveries = recoveries.into_iter().filter_map(|(stream, both)| {
        Some(RecoveryChange {
            stream: stream.to_owned(),
            change: change(&both)?,
            old: both.0.cloned(),
            new: both.1.cloned(),
        })
    });
    let meters = meters.into_values().filter_map(|both| {
        Some(MeterChange {
            change: change(&both)?,
            old: both.0.cloned(),
            new: both.1.cloned(),
        })
    });
    let cycles = cycles.into_values().filter_map(|both| {
        Some(CycleChange {
            change: change(&both)?,
            old: both.0.cloned(),
            new: both.1.cloned(),
        })
    });
    let both = [old, new].map(|plan| plan.cyclic.as_ref().map(|cyclic| cyclic.cycle_ns));
    PlanDiff {
        promises: promises.collect(),
        recoveries: recoveries.collect(),
        ports: ports.collect(),
        meters: meters.collect(),
        cycle_ns: (both[0] != both[1]).then_some(both),
        cycles: cycles.collect(),
    }
}

impl PlanDiff {
    /// True if nothing differs.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == PlanDiff::default()
    }

    /// Returns the text for a terminal: a line for each change.
    #[must_use]
    pub fn print_text(&self) -> String {
        if self.is_empty() {
            return "no promise and no port differs\n".to_owned();
        }
        let mut text = String::new();
        for promise in &self.promises {
            let delay = |ns: Option<u64>| ns.map_or_else(|| "no promise".to_owned(), show_ns);
            let what = match promise.change {
                Change::Added => format!("new: {}", delay(promise.new_ns)),
                Change::Removed => format!("gone: {} before", delay(promise.old_ns)),
                Change::Changed => format!(
                    "{} -> {}{}",
                    delay(promise.old_ns),
                    delay(promise.new_ns),
                    by(promise.old_ns, promise.new_ns, show_ns)
                ),
            };
            let route = if promise.route_changed {
                ", by another way"
            } else {
                ""
            };
            let priorities = promise.priorities.as_ref().map(|both| {
                let [old, new] = both.each_ref().map(|on_the_way| {
                    let words: Vec<String> = on_the_way.iter().map(u8::to_string).collect();
                    words.join(">")
                });
                format!(", priority {old} -> {new}")
            });
            // Writing to a String cannot fail.
            let _ = writeln!(
                text,
                "{} to {}: {what}{route}{}",
                promise.stream,
                promise.listener,
                priorities.unwrap_or_default()
            );
        }
        for recovery in &self.recoveries {
            let shown = |it: &Recovery| {
                format!(
                    "{}, history {}, reset {} ms, {} frames to put in order",
                    show_ns(it.delay_ns),
                    grouped(it.history_length),
                    grouped(it.reset_ms),
                    grouped(it.resequencing_frames)
                )
            };
            let (old, new) = (recovery.old.as_ref(), recovery.new.as_ref());
            let what = both(old.map(shown), new.map(shown));
            let _ = writeln!(text, "{} recovered: {what}", recovery.stream);
        }
        for port in &self.ports {
            let bytes = |bytes: Option<u64>| bytes.map_or_else(|| "no bound".to_owned(), in_bytes);
            let what = match port.change {
                Change::Added => format!("new: needs {}", bytes(port.new_bytes)),
                Change::Removed => format!("gone: needed {}", bytes(port.old_bytes)),
                Change::Changed => format!(
                    "needs {} -> {}{}",
                    bytes(port.old_bytes),
                    bytes(port.new_bytes),
                    by(port.old_bytes, port.new_bytes, in_bytes)
                ),
            };
            let _ = writeln!(text, "port {}>{}: {what}", port.node, port.port);
        }
        for meter in &self.meters {
            let shown = |meter: &FlowMeter| {
                let rate = grouped(meter.committed_rate_bps);
                format!(
                    "CIR {rate} bit/s, CBS {}",
                    in_bytes(meter.committed_burst_bytes)
                )
            };
            let Some(of) = meter.new.as_ref().or(meter.old.as_ref()) else {
                continue;
            };
            let what = both(meter.old.as_ref().map(shown), meter.new.as_ref().map(shown));
            let _ = writeln!(
                text,
                "meter at {} from {} of {}: {what}",
                of.switch, of.from, of.flow
            );
        }
        if let Some(cycles) = self.cycle_ns {
            let [old, new] = cycles.map(|ns| ns.map(show_ns));
            let _ = writeln!(text, "cycle: {}", both(old, new));
        }
        for cycle in &self.cycles {
            let shown = |port: &CyclicPort| {
                format!(
                    "{} frames, {}, closed {}, all out after {}",
                    grouped(port.cycle_frames),
                    in_bytes(port.cycle_bytes),
                    show_ns(port.closed_ns),
                    show_ns(port.out_ns)
                )
            };
            let Some(of) = cycle.new.as_ref().or(cycle.old.as_ref()) else {
                continue;
            };
            let what = both(cycle.old.as_ref().map(shown), cycle.new.as_ref().map(shown));
            let _ = writeln!(text, "cycle at {}>{}: {what}", of.node, of.port);
        }
        text
    }
}

/// Returns something in the old plan and in the new one, in words.
fn both(old: Option<String>, new: Option<String>) -> String {
    match (old, new) {
        (Some(old), Some(new)) => format!("{old} -> {new}"),
        (Some(old), None) => format!("gone: {old} before"),
        (None, new) => format!("new: {}", new.unwrap_or_default()),
    }
}

fn in_bytes(bytes: u64) -> String {
    format!("{} B", grouped(bytes))
}

fn by(old: Option<u64>, new: Option<u64>, show: impl Fn(u64) -> String) -> String {
    match (old, new) {
        (Some(old), Some(new)) if new > old => format!(" (+{})", show(new - old)),
        (Some(old), Some(new)) if old > new => format!(" (-{})", show(old - new)),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

    use super::{Change, diff};
    use crate::{Options, plan, read};

    fn line(change: impl Fn(&str) -> String) -> crate::Plan {
        let text = change(include_str!("../../../examples/line.toml"));
        let network = read(&text, "line.toml", &[]).unwrap();
        let options = Options {
            ignore_limits: true,
            ..Options::default()
        };
        plan(&network, &options).unwrap()
    }

    #[test]
    fn the_same_plan_has_no_difference() {
        let plan = line(str::to_owned);
        let none = diff(&plan, &plan);
        assert!(none.is_empty());
        assert_eq!(none.print_text(), "no promise and no port differs\n");
    }

    /// A change that a person has to make by hand at a switch is told, even where no promise differs.
    #[test]
    fn changed_meters_and_cycles_are_told() {
        let of = |text: &str, from: &str, to: &str| {
            let network = read(&text.replace(from, to), "t.toml", &[]).unwrap();
            plan(&network, &Options::default()).unwrap()
        };
        let text = include_str!("../../../examples/flow-meters.toml");
        let old = of(text, "", "");
        let found = diff(
            &old,
            &of(text, "flow-meters = \"on\"", "flow-meters = \"off\""),
        );
        assert!(found.meters.iter().all(|it| it.change == Change::Removed));
        assert_eq!(found.meters.len(), old.meters.len());
        let told = found.print_text();
        assert!(told.contains("gone: CIR "), "{told}");
        let text = include_str!("../../../examples/cyclic.toml");
        let old = of(text, "", "");
        let found = diff(&old, &of(text, "cycle = \"125 us\"", "cycle = \"100 us\""));
        assert_eq!(found.cycle_ns, Some([Some(125_000), Some(100_000)]));
        let told = found.print_text();
        assert!(told.contains("cycle: 125 \u{b5}s -> 100 \u{b5}s"), "{told}");
        let found = diff(
            &old,
            &of(text, "payload = \"120 B\"", "payload = \"200 B\""),
        );
        assert_eq!(found.cycle_ns, None);
        assert!(found.cycles.iter().any(|it| it.change == Change::Changed));
        let told = found.print_text();
        assert!(told.contains("cycle at s2>s1: 2 frames, "), "{told}");
    }

    #[test]
    fn what_changes_is_told() {
        let old = line(str::to_owned);
        let new = line(|text| {
            text.replace("payload = \"64 B\"", "payload = \"900 B\"")
                .replace("name = \"actuals-1\"", "name = \"actuals-one\"")
        });
        let found = diff(&old, &new);
        let of = |stream: &str| found.promises.iter().find(|change| change.stream == stream);
        assert_eq!(of("setpoints").unwrap().change, Change::Changed);
        assert!(of("setpoints").unwrap().new_ns > of("setpoints").unwrap().old_ns);
        assert_eq!(of("actuals-1").unwrap().change, Change::Removed);
        assert_eq!(of("actuals-one").unwrap().change, Change::Added);
        assert!(
            found
                .ports
                .iter()
                .any(|port| port.new_bytes > port.old_bytes)
        );
        let text = found.print_text();
        assert!(text.contains("actuals-1 to plc: gone"), "{text}");
        assert!(text.contains(" (+"), "{text}");
    }
}
