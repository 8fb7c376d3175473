//! Checks a plan against its own network: it is planned again, with its own options and launches.
//!
//! The check demands nothing that only a search could have found. Launches are taken from the plan and must fit. This
//! also holds for launches that were kept or took a longer search.

use core::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::evaluate::evaluate;
use crate::fingerprint;
use crate::identity::Kept;
use crate::plan::{Options, Plan};
use crate::plan_file::check::check;
use crate::schedule::{Scheduling, USUAL_WORK};

/// The phrase in warnings that come from the kept plan. They do not follow from the plan itself.
const MOVED: &str = "has moved: its place in the kept plan";

/// A value in a plan that does not follow from its network.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// The place of the value, such as `stream "A-to-B", promises[0].delay_ns`.
    pub what: String,
    /// The value in the plan; `None` if it is missing there.
    pub stated: Option<String>,
    /// The value that follows from the network; `None` if nothing of the kind follows.
    pub follows: Option<String>,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.stated, &self.follows) {
            (Some(stated), Some(follows)) => {
                write!(
                    f,
                    "{}: the plan says {stated}, but {follows} follows",
                    self.what
                )
            }
            (Some(stated), None) => {
                write!(
                    f,
                    "{}: the plan says {stated}, which does not follow",
                    self.what
                )
            }
            (None, Some(follows)) => {
                write!(f, "{}: missing in the plan; {follows} follows", self.what)
            }
            (None, None) => f.write_str(&self.what),
        }
    }
}

impl Finding {
    fn only(what: String) -> Finding {
        Finding {
            what,
            stated: None,
            follows: None,
        }
    }

    /// True if the finding is about the checksum only: something was changed, or another program wrote the file.
    #[must_use]
    pub fn is_checksum(&self) -> bool {
        self.what == "checksum"
    }
}

/// Proves every promise, gate list, launch, identity, buffer and flow meter of a plan again. Returns the values that do not
/// follow.
///
/// The list is empty if all of it holds. Text without an effect on the plan is covered by the checksum alone: the
/// description's text, its fingerprint, and the record of the search.
#[must_use]
pub fn verify(plan: &Plan) -> Vec<Finding> {
    if let Err(what) = check(plan) {
        return vec![Finding::only(what)];
    }
    let options = Options {
        ignore_limits: plan.options.ignore_limits,
        analysis: plan.options.analysis,
    };
    let mut go_on = || true;
    let mut scheduling = Scheduling::new(&mut go_on).keeping_launches(plan);
    scheduling.seed = plan.options.search_seed;
    scheduling.work = plan.options.search_work.min(USUAL_WORK);
    let (mut expected, reasons) = match evaluate(&plan.network, &options, &mut scheduling) {
        Ok(evaluated) => evaluated,
        Err(overflow) => return vec![Finding::only(overflow.to_string())],
    };
    let mut findings = Vec::new();
    if options.ignore_limits {
        let ignored = reasons.iter().map(|reason| format!("ignored: {reason}"));
        expected.warnings.extend(ignored);
    } else {
        let broken = reasons
            .iter()
            .map(|reason| Finding::only(reason.to_string()));
        findings.extend(broken);
    }
    // The identities of a plan that kept another one depend on that one.
    let kept = (plan.epoch > 1).then(|| Kept::of(plan, plan.epoch));
    if let Err(what) = expected.complete(&plan.network, plan.options, kept.as_ref()) {
        findings.push(Finding::only(what));
        return findings;
    }
    compare(plan, &mut expected, &mut findings);
    let mut copy = plan.clone();
    let checksum = fingerprint::checksum(&mut copy);
    unequal("checksum", &plan.checksum, &checksum, &mut findings);
    findings
}

fn compare(plan: &Plan, expected: &mut Plan, findings: &mut Vec<Finding>) {
    if plan.plan_id != expected.plan_id {
        findings.push(Finding {
            what: "plan_id, so that the network, the epoch, an identity, a shaper, a launch or a gate list was changed"
                .to_owned(),
            stated: Some(plan.plan_id.clone()),
            follows: Some(expected.plan_id.clone()),
        });
    }
    // Keys are those of the plan's own fingerprint: another one is told once, not for every stream.
    let base = fingerprint::key_base(&plan.plan_id);
    let others = expected
        .best_effort
        .iter_mut()
        .map(|flow| &mut flow.identity);
    let streams = expected
        .streams
        .iter_mut()
        .map(|stream| &mut stream.identity);
    for identity in streams.chain(others) {
        identity.key = base.wrapping_add(identity.number);
    }
    unequal("method", &plan.method, &expected.method, findings);
    unequal("routes", &plan.routes, &expected.routes, findings);
    if plan.epoch <= 1 {
        let (stated, follows) = (plan.numbers_used, expected.numbers_used);
        unequal("numbers_used", &stated, &follows, findings);
        // 0 is no epoch.
        unequal("epoch", &plan.epoch, &1, findings);
    }
    let own = |warnings: &[String]| -> Vec<String> {
        let own = warnings.iter().filter(|one| !one.contains(MOVED));
        own.cloned().collect()
    };
    unequal(
        "warnings",
        &own(&plan.warnings),
        &own(&expected.warnings),
        findings,
    );
    for (stated, follows) in plan.streams.iter().zip(&expected.streams) {
        unequal(
            &format!("stream \"{}\"", stated.name),
            stated,
            follows,
            findings,
        );
    }
    for (stated, follows) in plan.best_effort.iter().zip(&expected.best_effort) {
        let what = format!("best effort \"{}\" to \"{}\"", stated.name, stated.to);
        unequal(&what, stated, follows, findings);
    }
    for (stated, follows) in plan.ports.iter().zip(&expected.ports) {
        let what = format!("port {}>{}", stated.node, stated.port);
        unequal(&what, stated, follows, findings);
    }
    // Which flows have meters follows from the network, too: their number may differ.
    unequal("meters", &plan.meters, &expected.meters, findings);
    unequal("cyclic", &plan.cyclic, &expected.cyclic, findings);
}

/// Notes every value in which two things differ.
fn unequal<T: PartialEq + Serialize>(
    what: &str,
    stated: &T,
    follows: &T,
    findings: &mut Vec<Finding>,
) {
    if stated == follows {
        return;
    }
    let value = |of: &T| serde_json::to_value(of).unwrap_or(Value::Null);
    leaves(what, "", &value(stated), &value(follows), findings);
}

fn leaves(what: &str, path: &str, stated: &Value, follows: &Value, findings: &mut Vec<Finding>) {
    match (stated, follows) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys().filter(|key| !a.contains_key(*key))) {
                let path = if path.is_empty() {
                    key.clone()
                } else {
                    format!("{path}.{key}")
                };
                let (a, b) = (a.get(key), b.get(key));
                let null = Value::Null;
                leaves(
                    what,
                    &path,
                    a.unwrap_or(&null),
                    b.unwrap_or(&null),
                    findings,
                );
            }
        }
        (Value::Array(a), Value::Array(b)) => {
            let null = Value::Null;
            for at in 0..a.len().max(b.len()) {
                let path = format!("{path}[{at}]");
                let (a, b) = (a.get(at), b.get(at));
                leaves(
                    what,
                    &path,
                    a.unwrap_or(&null),
                    b.unwrap_or(&null),
                    findings,
                );
            }
        }
        _ if stated == follows => {}
        _ => {
            let shown = |value: &Value| (!value.is_null()).then(|| value.to_string());
            let what = match path {
                "" => what.to_owned(),
                path => format!("{what}, {path}"),
            };
            findings.push(Finding {
                what,
                stated: shown(stated),
                follows: shown(follows),
            });
        }
    }
}
