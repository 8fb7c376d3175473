//! `rtwire plan --synthesize`: changes a description so that all deadlines hold, then plans it.

use std::cell::Cell;
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use rtwire_plan::schedule::Scheduling;
use rtwire_plan::show::grouped;
use rtwire_plan::synthesize::{
    Certainty, Change, CostPart, MayChange, Objective, Progress, SynthesisReport, Synthesizing,
    synthesize,
};
use rtwire_plan::{Network, Options, Plan, Refusal, edit};

use crate::columns::table;
use crate::plan_schedule::Ended;
use crate::{input, output, plan_schedule};

/// A kind of value that may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Changeable {
    /// `priority` of streams
    Priorities,
    /// `route` of streams with one listener
    Routes,
    /// `shaping-interval` of streams with a rate
    ShapingIntervals,
    /// `schedule = "time-triggered"` for streams with an interval
    Gates,
}

/// The name of an objective.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ObjectiveName {
    /// The fewest streams changed, then values, then their distance from the file
    Changes,
    /// The fewest time-triggered streams, then priorities in use, then links beyond the fewest
    Simple,
}

/// Arguments of `rtwire plan --synthesize`.
#[derive(Args)]
pub(crate) struct SynthesisArguments {
    /// Change the streams so that all deadlines hold, at the least cost, and plan that; with =LIST only these values change
    #[arg(
        long,
        value_enum,
        value_name = "LIST",
        num_args = 0..=1,
        require_equals = true,
        value_delimiter = ',',
        default_missing_value = "priorities,routes,shaping-intervals,gates",
        conflicts_with_all = ["no_admission", "keep", "diff"]
    )]
    synthesize: Vec<Changeable>,
    /// With --synthesize: what costs most [default: changes]
    #[arg(long, value_enum, requires = "synthesize")]
    objective: Option<ObjectiveName>,
    /// With --synthesize: write the changed description to this file, comments included; FILE itself is allowed
    #[arg(long, value_name = "FILE.toml", requires = "synthesize")]
    write: Option<PathBuf>,
}

/// A synthesis, planned anew from the changed description.
pub(crate) struct Synthesized {
    pub(crate) report: SynthesisReport,
    pub(crate) outcome: Result<Plan, Refusal>,
    pub(crate) ended: Option<Ended>,
    /// The changed description.
    text: String,
}

impl SynthesisArguments {
    /// True if a synthesis is asked for.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.synthesize.is_empty()
    }

    /// Returns the file for the changed description.
    pub(crate) fn written(&self) -> Option<&Path> {
        self.write.as_deref()
    }

    fn may_change(&self) -> MayChange {
        let may = |one: Changeable| self.synthesize.contains(&one);
        MayChange {
            priorities: may(Changeable::Priorities),
            routes: may(Changeable::Routes),
            shaping_intervals: may(Changeable::ShapingIntervals),
            gates: may(Changeable::Gates),
        }
    }

    /// Synthesizes and plans. `network` is that of `file`, with the values of `set`.
    pub(crate) fn run(
        &self,
        (file, set): (&Path, &[(String, String)]),
        network: &Network,
        options: Options,
        budget: Option<Duration>,
    ) -> Result<Synthesized, String> {
        let bytes = input::bytes_of(file)?;
        let shown = file.display().to_string();
        let source = String::from_utf8(bytes).map_err(|_| format!("{shown}: no text"))?;
        let stop = rtwire_sys::signal::install_stop_flag().ok();
        let stopped = || stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        let ended = Cell::new(None);
        let mut keep_going = progress(&stopped, budget, &ended);
        let wanted = Synthesizing {
            may_change: self.may_change(),
            objective: match self.objective {
                Some(ObjectiveName::Simple) => Objective::Simple,
                Some(ObjectiveName::Changes) | None => Objective::Changes,
            },
            most_plans: budget.map(|_| u64::MAX),
            stated_tick_errors: edit::streams_with(&source, "tick-error"),
            ..Synthesizing::new(&mut keep_going)
        };
        let found = synthesize(network, &options, wanted)
            .map_err(|overflow| format!("{shown}: network \"{}\": {overflow}", network.name))?;
        plan_schedule::clear();
        let settings: Vec<_> = found.report.changes.iter().map(Change::setting).collect();
        let text = edit::set(&source, &settings).map_err(|fault| format!("{shown}: {fault}"))?;
        // From the text, as if it had been written by hand: nothing of the search is believed.
        let changed = rtwire_plan::read(&text, &shown, set).map_err(|faults| {
            format!("the changed description is refused, which is an error of rtwire\n{faults}")
        })?;
        // What fits is planned to its end, whoever is in a hurry: the usual effort is short.
        let fits = found.report.certainty.fits();
        let mut go_on = || fits || !stopped();
        let outcome = rtwire_plan::plan_with(&changed, &options, &mut Scheduling::new(&mut go_on));
        Ok(Synthesized {
            report: found.report,
            outcome,
            ended: ended.get(),
            text,
        })
    }
}

impl Synthesized {
    /// Writes the changed description.
    pub(crate) fn write(&self, path: &Path) -> Result<(), String> {
        output::replace(path, &self.text).map_err(|message| format!("--write: {message}"))
    }
}

/// Returns the callback before each plan of a synthesis, as [`plan_schedule::progress`] is for a search.
fn progress<'a>(
    stopped: &'a impl Fn() -> bool,
    budget: Option<Duration>,
    ended: &'a Cell<Option<Ended>>,
) -> impl FnMut(&Progress) -> bool + 'a {
    let shown = std::io::stderr().is_terminal();
    let started = Instant::now();
    let mut last = started;
    move |progress| {
        if shown && last.elapsed() >= Duration::from_millis(200) {
            last = Instant::now();
            let best = progress.cost.as_ref().and_then(|cost| cost.first());
            let best = best.map_or_else(
                || "nothing that fits yet".to_owned(),
                |part| format!("best so far: {} {}", part.name, part.value),
            );
            eprint!(
                "\r\x1b[Ksynthesis: {} planned, {best}, {:.0} s, Ctrl-C shows the best so far",
                progress.planned,
                started.elapsed().as_secs_f64()
            );
        }
        if stopped() {
            ended.set(Some(Ended::Stopped));
        } else if budget.is_some_and(|budget| started.elapsed() >= budget) {
            ended.set(Some(Ended::Budget));
        }
        ended.get().is_none()
    }
}

fn numbers(cost: &[CostPart]) -> String {
    let parts = cost
        .iter()
        .map(|part| format!("{} {}", part.name, part.value));
    parts.collect::<Vec<_>>().join(", ")
}

/// Returns the changes as a table, with their cost and what is known of it.
pub(crate) fn summary(report: &SynthesisReport) -> String {
    let mut text = String::new();
    if !report.changes.is_empty() {
        let mut rows = vec![
            ["stream", "key", "in the file", "chosen"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(report.changes.iter().map(|change| {
            vec![
                change.stream.clone(),
                change.key.clone(),
                change.old.clone().unwrap_or_else(|| "-".to_owned()),
                change.new.clone(),
            ]
        }));
        table(&mut text, 4, &rows);
        text.push('\n');
    }
    let planned = grouped(report.planned);
    let cost = numbers(&report.cost);
    let line = match report.certainty {
        Certainty::AsStated => "nothing to change: the network fits as it is".to_owned(),
        Certainty::Least => format!("cost: {cost}: least ({planned} planned)"),
        Certainty::BestFound => format!("cost: {cost}: best found of {planned} planned"),
        Certainty::NoneFits if report.planned == 1 => {
            "no choice fits: a frame alone is later than its deadline, or a shaper is off"
                .to_owned()
        }
        Certainty::NoneFits => {
            format!("no choice fits: all were tried or ruled out ({planned} planned)")
        }
        Certainty::NotFound => format!("no choice was found that fits ({planned} planned)"),
    };
    text += &line;
    if let Some(bound) = &report.bound {
        text += &format!("; nothing below this cost fits: {}", numbers(bound));
    }
    text.push('\n');
    text
}
