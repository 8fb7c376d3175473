//! All hosts or none. Pure: what hosts say comes through [`Host`].

use crate::order::{Order, Reply};

/// A host as the deployer sees it.
pub trait Host: Send {
    /// Asks for an order to be carried out.
    ///
    /// # Errors
    /// The reason why the reply is not known: the order may have been carried out.
    fn ask(&mut self, order: &Order) -> Result<Reply, String>;
}

/// The outcome of asking all hosts: for each host in turn, its name, and its reply or the reason why there is none.
pub type Asked = Vec<(String, Result<Reply, String>)>;

/// The outcome of a deployment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All hosts have the plan.
    Deployed,
    /// No host has changed anything, since one cannot.
    Refused,
    /// Some host did not apply the plan. None keeps it: each puts its settings back by itself when its time is over.
    PutBack,
    /// Some hosts keep the plan. The others did not confirm in time: they have put their settings back, or kept them.
    Partly,
}

impl Outcome {
    /// Returns true if every host is in a known state.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !matches!(self, Outcome::Partly)
    }
}

/// Asks all hosts at once.
pub fn ask_all<H: Host>(hosts: &mut [(String, H)], order: &Order) -> Asked {
    std::thread::scope(|scope| {
        let asked = hosts.iter_mut().map(|(name, host)| {
            let name = name.clone();
            scope.spawn(move || (name, host.ask(order)))
        });
        let asked: Vec<_> = asked.collect();
        let joined = asked.into_iter().map(|asked| asked.join());
        joined
            .map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect()
    })
}

fn all_done(asked: &Asked) -> bool {
    asked
        .iter()
        .all(|(_, reply)| reply.as_ref().is_ok_and(|reply| reply.code == 0))
}

/// Brings a plan to all hosts. `tell` gets what the hosts say at each step, with the step's name.
///
/// Nothing is confirmed before all hosts have applied the plan, have read it back, and have answered once more. A confirmation
/// without a reply is repeated once.
pub fn deploy<H: Host>(
    hosts: &mut [(String, H)],
    plan: &str,
    confirm_within_s: u32,
    tell: &mut dyn FnMut(&'static str, &Asked),
) -> Outcome {
    let plan = plan.to_owned();
    let shown = ask_all(hosts, &Order::Show { plan: plan.clone() });
    tell("show", &shown);
    if !all_done(&shown) {
        return Outcome::Refused;
    }
    let applied = ask_all(
        hosts,
        &Order::Apply {
            plan,
            confirm_within_s,
        },
    );
    tell("apply", &applied);
    if !all_done(&applied) {
        return Outcome::PutBack;
    }
    // The last moment at which nothing is kept: a host that is gone by now ends it here.
    let there = ask_all(hosts, &Order::Ready);
    if !all_done(&there) {
        tell("answer once more", &there);
        return Outcome::PutBack;
    }
    let mut confirmed = ask_all(hosts, &Order::Confirm);
    for ((_, host), (_, reply)) in hosts.iter_mut().zip(&mut confirmed) {
        if reply.is_err() {
            *reply = host.ask(&Order::Confirm);
        }
    }
    tell("confirm", &confirmed);
    // A host that refuses may have kept the plan all the same: it had confirmed, and the first reply was lost.
    match all_done(&confirmed) {
        true => Outcome::Deployed,
        false => Outcome::Partly,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum State {
        Old,
        /// New, and put back unless it is confirmed.
        Pending,
        New,
    }

    /// The fate of the n-th order.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum Fate {
        Done,
        Refused,
        /// The order is lost.
        Lost,
        /// It is carried out, and the reply is lost.
        ReplyLost,
    }

    struct Model {
        state: Arc<Mutex<State>>,
        fates: Vec<Fate>,
        at: usize,
    }

    impl Host for Model {
        fn ask(&mut self, order: &Order) -> Result<Reply, String> {
            let fate = self.fates.get(self.at).copied().unwrap_or(Fate::Done);
            self.at += 1;
            let lost = || Err("lost".to_owned());
            if fate == Fate::Lost {
                return lost();
            }
            let code = i32::from(fate == Fate::Refused);
            if code == 0 {
                let mut state = self
                    .state
                    .lock()
                    .unwrap_or_else(std::sync::PoisonError::into_inner);
                *state = match (order, *state) {
                    (Order::Apply { .. }, State::Old) => State::Pending,
                    (Order::Confirm, State::Pending) => State::New,
                    (_, same) => same,
                };
            }
            match fate {
                Fate::ReplyLost => lost(),
                _ => Ok(Reply {
                    code,
                    ..Reply::default()
                }),
            }
        }
    }

    fn fate() -> impl Strategy<Value = Fate> {
        prop_oneof![12 => Just(Fate::Done), 1 => Just(Fate::Refused), 1 => Just(Fate::Lost), 1 => Just(Fate::ReplyLost)]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]
        #[test]
        fn all_hosts_have_the_plan_or_none_unless_it_says_so(
            fates in prop::collection::vec(prop::collection::vec(fate(), 6), 1..5),
        ) {
            let states: Vec<_> = fates.iter().map(|_| Arc::new(Mutex::new(State::Old))).collect();
            let mut hosts: Vec<(String, Model)> = fates
                .into_iter()
                .zip(&states)
                .enumerate()
                .map(|(at, (fates, state))| (format!("h{at}"), Model { state: Arc::clone(state), fates, at: 0 }))
                .collect();
            let outcome = deploy(&mut hosts, "{}", 30, &mut |_, _| {});
            // The time of the guardians is over.
            let after: Vec<State> = states
                .iter()
                .map(|state| match *state.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
                    State::Pending => State::Old,
                    other => other,
                })
                .collect();
            let all = |wanted| after.iter().all(|state| *state == wanted);
            match outcome {
                Outcome::Deployed => prop_assert!(all(State::New), "{after:?}"),
                Outcome::Refused | Outcome::PutBack => prop_assert!(all(State::Old), "{after:?}"),
                Outcome::Partly => {}
            }
        }
    }
}
