//! From a network to its plan: bounds and schedule, identities, suggestions where it is refused.

use crate::evaluate::{evaluate, evaluate_and_certify};
use crate::identity::{self, Kept};
use crate::network::Network;
use crate::plan::{Analysis, Options, Plan, PlanOptions};
use crate::refusal::{Reason, Refusal};
use crate::schedule::{Scheduling, USUAL_WORK};
use rtwire_describe::ratio::Overflow;

impl Default for PlanOptions {
    fn default() -> PlanOptions {
        PlanOptions::of(&Options::default(), &Scheduling::new(&mut || true))
    }
}

impl PlanOptions {
    pub(crate) fn of(options: &Options, scheduling: &Scheduling<'_>) -> PlanOptions {
        PlanOptions {
            analysis: options.analysis,
            ignore_limits: options.ignore_limits,
            search_work: scheduling.work,
            search_seed: scheduling.seed,
            replan: scheduling.moves,
        }
    }
}

impl Plan {
    /// Completes the plan: the network, identities, fingerprint, keys, checksum.
    pub(crate) fn complete(
        &mut self,
        network: &Network,
        options: PlanOptions,
        kept: Option<&Kept>,
    ) -> Result<(), String> {
        let assigned = identity::assign(network, kept)?;
        self.epoch = kept.map_or(1, |kept| kept.epoch);
        self.options = options;
        self.numbers_used = assigned.numbers_used;
        self.network = network.clone();
        self.best_effort = assigned.best_effort;
        let described = self.network.streams.iter_mut();
        let planned = self.streams.iter_mut();
        for ((stream, planned), identity) in described.zip(planned).zip(assigned.streams) {
            stream.port = identity.port;
            planned.identity = identity;
        }
        self.seal();
        Ok(())
    }
}

/// Plans a network.
///
/// # Errors
/// [`Refusal`] with each stream or port, its limit, the excess, and the nearest changes that fit. With
/// [`Options::ignore_limits`] only if numbers overflow.
pub fn plan(network: &Network, options: &Options) -> Result<Plan, Refusal> {
    plan_with(network, options, &mut Scheduling::new(&mut || true))
}

/// Plans a network with options for the schedule of its time-triggered streams: kept launches, effort of the search.
///
/// If [`Scheduling::keep_going`] ends the work, the refusal has the best result so far, and only the suggestions found
/// by then.
///
/// # Errors
/// As [`plan`].
pub fn plan_with(
    network: &Network,
    options: &Options,
    scheduling: &mut Scheduling<'_>,
) -> Result<Plan, Refusal> {
    let (mut plan, mut reasons) = match evaluate(network, options, scheduling) {
        Ok(evaluated) => evaluated,
        Err(overflow) => return Err(Refusal::overflow(network, overflow)),
    };
    if options.ignore_limits {
        let ignored = reasons.iter().map(|reason| format!("ignored: {reason}"));
        plan.warnings.extend(ignored);
        reasons.clear();
    }
    let used = PlanOptions::of(options, scheduling);
    // Without identities there is no plan, whatever is ignored.
    if let Err(what) = plan.complete(network, used, scheduling.identities.as_ref()) {
        return Err(Refusal {
            reasons: vec![Reason::Identities { what }],
            suggestions: Vec::new(),
            plan: None,
        });
    }
    if reasons.is_empty() {
        return Ok(plan);
    }
    let suggestions = crate::suggest::suggest(network, &reasons, scheduling.keep_going);
    Err(Refusal {
        reasons,
        suggestions,
        plan: Some(Box::new(plan)),
    })
}

/// Adds the facts on which its promises rest to a plan (docs/bounds.md, "The certificate").
///
/// The checker has no rule for [`Analysis::EndToEnd`] yet. Such a plan becomes one of [`Analysis::Rows`], with the
/// promises of that method. Of any other plan nothing else changes but the checksum.
///
/// Facts about launches and windows are not part of it.
///
/// # Errors
/// [`Overflow`].
pub fn certify(plan: &Plan) -> Result<Plan, Overflow> {
    let analysis = match plan.options.analysis {
        Analysis::EndToEnd => Analysis::Rows,
        known => known,
    };
    let options = Options {
        ignore_limits: plan.options.ignore_limits,
        analysis,
    };
    let mut go_on = || true;
    let mut scheduling = Scheduling::new(&mut go_on).keeping_launches(plan);
    scheduling.seed = plan.options.search_seed;
    scheduling.work = plan.options.search_work.min(USUAL_WORK);
    let (found, _) = evaluate_and_certify(&plan.network, &options, &mut scheduling, true)?;
    let mut certified = Plan {
        certificate: found.certificate,
        ..plan.clone()
    };
    if analysis != plan.options.analysis {
        certified.options.analysis = analysis;
        certified.method = found.method;
        for (stream, found) in certified.streams.iter_mut().zip(found.streams) {
            stream.promises = found.promises;
            stream.recovery = found.recovery;
        }
    }
    Ok(crate::plan_file::sealed(certified))
}
