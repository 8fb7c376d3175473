//! `rtwire verify PLAN.json`: every promise of a plan proved again.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use rtwire_plan::{Finding, Plan, plan_file, verify};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{input, output};

/// A value does not follow from the network, or the checksum is wrong.
const BROKEN: u8 = 1;
/// Wrong usage or a faulty file.
const FAULTY: u8 = 2;

/// Arguments of `rtwire verify`.
#[derive(Args)]
pub(crate) struct VerifyArguments {
    /// The plan (JSON, from `rtwire plan --output`)
    plan: PathBuf,
    /// Print JSON (its schema: `rtwire schema verify`)
    #[arg(long)]
    json: bool,
    /// Write the plan to this file with a new checksum, if all but the checksum holds
    #[arg(long, value_name = "OUT.json")]
    seal: Option<PathBuf>,
}

/// The report of `rtwire verify --json`.
#[derive(Serialize, JsonSchema)]
pub(crate) struct VerifyReport {
    /// The version of this form.
    version: u32,
    /// True if everything in the plan follows from its network, and the checksum is right.
    holds: bool,
    /// The plan's fingerprint.
    plan_id: String,
    /// The plan's epoch.
    epoch: u64,
    /// The values that do not follow.
    findings: Vec<Finding>,
    /// The judgement of the plan's certificate, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<CertificateReport>,
}

/// The judgement of a certificate by the checker, which shares no code with the planner.
#[derive(Serialize, JsonSchema)]
struct CertificateReport {
    /// The number of promises that were proved from the certificate.
    proved: usize,
    /// The number of promises that a schedule in the certificate attains, but for rounding up to whole nanoseconds.
    exact: usize,
    /// The promises with a schedule that does not reach them.
    not_attained: Vec<Distance>,
    /// The promises that rest on a mechanism without a rule in the checker. They were planned again.
    not_covered: Vec<NotCovered>,
    /// True if the plan ignores limits: deadlines and buffers were not asked. Absent if not.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    limits_ignored: bool,
    /// The redundant streams whose recovery was planned again: the checker has no rule for it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    recoveries_not_covered: Vec<String>,
    /// The first fact that does not follow; absent if the certificate is accepted.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// A promise, and the worst schedule that the certificate carries for it.
#[derive(Serialize, JsonSchema)]
struct Distance {
    /// The stream.
    stream: String,
    /// The listener.
    listener: String,
    /// The promise, nanoseconds.
    delay_ns: u64,
    /// The largest delay in the schedule, picoseconds.
    attained_ps: u64,
}

/// A promise that the checker does not judge.
#[derive(Serialize, JsonSchema)]
struct NotCovered {
    /// The stream.
    stream: String,
    /// The listener.
    listener: String,
    /// The mechanism without a rule, and its place.
    why: String,
}

impl CertificateReport {
    fn of(bytes: &[u8], plan: &Plan) -> CertificateReport {
        let recovered = plan.streams.iter().filter(|it| it.recovery.is_some());
        let recovered = recovered.map(|it| it.name.clone()).collect();
        match rtwire_proof::check(bytes) {
            Ok(verdict) => CertificateReport {
                proved: verdict.proved(),
                exact: verdict.exact(),
                not_attained: verdict
                    .promises
                    .iter()
                    .filter(|judged| !judged.exact)
                    .filter_map(|judged| {
                        Some(Distance {
                            attained_ps: judged.attained_ps?,
                            delay_ns: judged.delay_ns,
                            stream: judged.stream.clone(),
                            listener: judged.listener.clone(),
                        })
                    })
                    .collect(),
                not_covered: verdict
                    .promises
                    .into_iter()
                    .filter_map(|judged| {
                        Some(NotCovered {
                            why: judged.not_covered?,
                            stream: judged.stream,
                            listener: judged.listener,
                        })
                    })
                    .collect(),
                limits_ignored: verdict.limits_ignored,
                recoveries_not_covered: recovered,
                refused: None,
            },
            Err(refused) => CertificateReport {
                proved: 0,
                exact: 0,
                not_attained: Vec::new(),
                not_covered: Vec::new(),
                limits_ignored: false,
                recoveries_not_covered: Vec::new(),
                refused: Some(refused.to_string()),
            },
        }
    }

    /// Returns the lines for people.
    fn text(&self) -> String {
        if let Some(refused) = &self.refused {
            return format!("certificate: {refused}\n");
        }
        let mut text = match self.proved {
            1 => "certificate: 1 promise proved from its facts\n".to_owned(),
            proved => format!("certificate: {proved} promises proved from their facts\n"),
        };
        if self.exact + self.not_attained.len() > 0 {
            text += &format!(
                "certificate: {} of {} promises with a schedule are exact: it attains them\n",
                self.exact,
                self.exact + self.not_attained.len()
            );
        }
        for one in &self.not_attained {
            let gap_ps = (one.delay_ns.saturating_mul(1_000)).saturating_sub(one.attained_ps);
            text += &format!(
                "certificate: \"{}\" to {}: promised {} ns, its schedule reaches {} ns less\n",
                one.stream,
                one.listener,
                one.delay_ns,
                gap_ps.div_ceil(1_000)
            );
        }
        for one in &self.not_covered {
            text += &format!(
                "certificate: \"{}\" to {} is not covered by the checker ({}): planned again\n",
                one.stream, one.listener, one.why
            );
        }
        if self.limits_ignored {
            text += "certificate: the plan ignores limits: deadlines and buffers were not asked\n";
        }
        for stream in &self.recoveries_not_covered {
            text += &format!(
                "certificate: the recovery of \"{stream}\" is not covered by the checker: planned again\n"
            );
        }
        text
    }
}

/// Verifies and prints.
pub(crate) fn run(arguments: &VerifyArguments) -> ExitCode {
    match verified(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(BROKEN),
        Err(message) => {
            eprintln!("rtwire verify: {message}");
            ExitCode::from(FAULTY)
        }
    }
}

fn verified(arguments: &VerifyArguments) -> Result<bool, String> {
    let file = arguments.plan.display().to_string();
    let bytes = input::bytes_of(&arguments.plan)?;
    let plan = plan_file::read_changed(&bytes, &file).map_err(|fault| fault.to_string())?;
    let certificate = plan.certificate.is_some();
    let certificate = certificate.then(|| CertificateReport::of(&bytes, &plan));
    let follows = certificate
        .as_ref()
        .is_none_or(|certificate| certificate.refused.is_none());
    let findings = verify(&plan);
    let sound = follows && findings.iter().all(Finding::is_checksum);
    let sealed = match &arguments.seal {
        Some(out) if sound => {
            output::replace(out, &plan_file::text(&plan_file::sealed(plan.clone())))
        }
        _ => Ok(()),
    };
    let seals = arguments.seal.is_some() && sound && sealed.is_ok();
    let holds = (follows && findings.is_empty()) || seals;
    print(
        arguments,
        plan,
        (findings, certificate),
        (sound, holds),
        sealed.is_err(),
    );
    sealed.map(|()| holds)
}

/// Prints the findings.
fn print(
    arguments: &VerifyArguments,
    plan: Plan,
    (findings, certificate): (Vec<Finding>, Option<CertificateReport>),
    (sound, holds): (bool, bool),
    unwritten: bool,
) {
    let file = arguments.plan.display();
    if arguments.json {
        let report = VerifyReport {
            version: 1,
            holds,
            plan_id: plan.plan_id,
            epoch: plan.epoch,
            findings,
            certificate,
        };
        output::print(&plan_file::json_text(&report));
        return;
    }
    let promises = plan.streams.iter().flat_map(|stream| &stream.promises);
    let promises = promises.filter(|promise| promise.delay_ns.is_some());
    let promised = match promises.count() {
        0 => "there is no promise in it".to_owned(),
        1 => "the one promise holds".to_owned(),
        count => format!("all {count} promises hold"),
    };
    let mut text = String::new();
    for finding in &findings {
        text += &format!("{finding}\n");
    }
    let refused = certificate
        .as_ref()
        .is_some_and(|one| one.refused.is_some());
    if let Some(certificate) = &certificate {
        text += &certificate.text();
    }
    text += &match (
        &arguments.seal,
        sound,
        findings.len() + usize::from(refused),
    ) {
        (Some(_), true, _) if unwritten => format!("{promised}; nothing was written\n"),
        (Some(out), true, _) => {
            format!(
                "{promised}; written with a new checksum to {}\n",
                out.display()
            )
        }
        (None, _, 0) => format!(
            "{promised}, and everything else in the plan follows ({})\n",
            plan.plan_id
        ),
        (None, true, _) => format!(
            "{promised}, but the file was changed: `rtwire verify {file} --seal OUT.json` writes it anew\n"
        ),
        (_, false, count) => {
            let seal = if arguments.seal.is_some() {
                "; nothing was written"
            } else {
                ""
            };
            format!("{count} finding(s): this plan does not hold{seal}\n")
        }
    };
    output::print(&text);
}

/// Returns the JSON Schema of the output of `--json`.
pub(crate) fn json_schema() -> serde_json::Value {
    let mut schema = schemars::schema_for!(VerifyReport).to_value();
    schema["title"] = serde_json::json!("rtwire verify");
    schema
}
