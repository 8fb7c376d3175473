//! The output of `rtwire plan --json`: one form for a plan, a refusal and a faulty file.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::plan_file::PlanFileError;
use crate::refusal::{Reason, Refusal};
use crate::suggestion::Suggestion;
use crate::synthesize::SynthesisReport;
use rtwire_describe::{Fault, Faults};

/// The outcome of planning, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AnswerStatus {
    /// The network can be promised; the plan holds.
    Ok,
    /// Bounds exist, but one exceeds a limit.
    Reject,
    /// Something has no bound.
    Unbounded,
    /// The description is faulty.
    Invalid,
}

/// The outcome of planning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// The outcome in one word.
    pub status: AnswerStatus,
    /// The plan; for a refusal, the part that could be computed.
    #[serde(flatten)]
    pub plan: Option<Plan>,
    /// The limits that do not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<Reason>,
    /// Changes that were planned again and fit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub suggestions: Vec<Suggestion>,
    /// The changes that were chosen (`--synthesize`), with their cost. The plan is that of the network with them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub synthesis: Option<SynthesisReport>,
    /// Faults of the description.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

impl From<&Faults> for Answer {
    fn from(faults: &Faults) -> Answer {
        Answer {
            status: AnswerStatus::Invalid,
            plan: None,
            reasons: Vec::new(),
            suggestions: Vec::new(),
            synthesis: None,
            faults: faults.faults.clone(),
        }
    }
}

impl From<&PlanFileError> for Answer {
    fn from(error: &PlanFileError) -> Answer {
        let (line, column) = error.place();
        Answer {
            status: AnswerStatus::Invalid,
            plan: None,
            reasons: Vec::new(),
            suggestions: Vec::new(),
            synthesis: None,
            faults: vec![Fault {
                line,
                column,
                message: error.to_string(),
                help: None,
                excerpt: String::new(),
                width: 0,
            }],
        }
    }
}

impl From<Plan> for Answer {
    fn from(plan: Plan) -> Answer {
        Answer {
            status: AnswerStatus::Ok,
            plan: Some(plan),
            reasons: Vec::new(),
            suggestions: Vec::new(),
            synthesis: None,
            faults: Vec::new(),
        }
    }
}

impl From<&Result<Plan, Refusal>> for Answer {
    fn from(outcome: &Result<Plan, Refusal>) -> Answer {
        match outcome {
            Ok(plan) => Answer::from(plan.clone()),
            Err(refusal) => Answer {
                status: if refusal.is_unbounded() {
                    AnswerStatus::Unbounded
                } else {
                    AnswerStatus::Reject
                },
                plan: refusal.plan.as_deref().cloned(),
                reasons: refusal.reasons.clone(),
                suggestions: refusal.suggestions.clone(),
                synthesis: None,
                faults: Vec::new(),
            },
        }
    }
}
