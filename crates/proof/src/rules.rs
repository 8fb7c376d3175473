//! The rules: which fact follows from which others. Each has its theorem.
//!
//! Every rule takes the claims of the ports before as they stand, and never computes them. For the whole this
//! suffices:
//!
//! **Theorem (first late frame).** Let claimed delays `D` be such that each follows from the others by the rules below.
//! Then no frame exceeds them, on any topology. Proof: take the first instant at which a frame has been at a port for
//! longer than its `D`. Every rule at that port looks only at frames that came before this instant. At the ports before,
//! those left within their `D`, so that their lateness is as claimed. Then the rule says that the frame has left
//! already: a contradiction. (docs/bounds.md, "Admission while the network runs", for budgets; with time cut at the
//! first violation as in J.-Y. Le Boudec, P. Thiran, "Network Calculus", 6.3.)

use crate::curve::{Group, Line, fits};
use crate::model::{Flow, Hop, Model};
use crate::number::Num;

/// A flow and its hop at the port in question.
type Passing = (usize, usize);

/// Flows over one input, and every line that bounds them.
struct Bundle {
    from: Option<usize>,
    /// The least class at the port before.
    before: u8,
    contracts: Line,
    largest: Num,
    rest: Line,
    stairs: Vec<crate::curve::Stair>,
}

/// The lateness at which the flows of a port count, with the variation of its latency.
struct Seen {
    port: usize,
    varies: Num,
    /// The flow whose own frames count as its talker sends them.
    own: Option<usize>,
}

impl Model {
    fn hop(&self, (flow, hop): Passing) -> &Hop {
        &self.flows[flow].hops[hop]
    }

    /// **Theorem (lateness).** Frames that are late by at most `J'` beyond their contract bring at most what the contract
    /// allows in a window longer by `J'`. A latency that varies by `V` before the queue makes it longer by `V` again
    /// (docs/bounds.md, "Theorem (variation)"; Le Boudec, Thiran, section 1.4).
    ///
    /// The own frames of an examined stream count as sent: [`Model::piece_holds`].
    fn lateness(&self, (flow, hop): Passing, seen: &Seen) -> Num {
        if seen.own == Some(flow) {
            return Num::ZERO;
        }
        let late = self.flows[flow].hops[hop].late;
        late.unwrap_or(Num(None)) + seen.varies
    }

    /// Returns the flows of a choice of classes at a port, by the link over which they come.
    fn bundles(&self, seen: &Seen, chosen: impl Fn(Passing, u8) -> bool) -> Vec<Bundle> {
        let mut bundles: Vec<Bundle> = Vec::new();
        for &passing in &self.ports[seen.port].passing {
            let (flow, hop) = (&self.flows[passing.0], self.hop(passing));
            if !chosen(passing, hop.class) {
                continue;
            }
            let before = hop.before.map(|before| &flow.hops[before]);
            let from = before.map(|before| before.port);
            let class = before.map_or(0, |before| before.class);
            let late = self.lateness(passing, seen);
            let line = flow.contract.longer(late);
            let at = bundles.iter().position(|one| one.from == from).unwrap_or_else(|| {
                let (contracts, rest) = (Line::NOTHING, Line::NOTHING);
                let (before, largest, stairs) = (class, Num::ZERO, Vec::new());
                bundles.push(Bundle { from, before, contracts, largest, rest, stairs });
                bundles.len() - 1
            });
            let bundle = &mut bundles[at];
            bundle.before = bundle.before.min(class);
            bundle.contracts = bundle.contracts.plus(line);
            bundle.largest = bundle.largest.max(flow.largest);
            match flow.stair {
                Some(mut stair) => {
                    stair.jitter = stair.jitter + late;
                    bundle.stairs.push(stair);
                }
                None => bundle.rest = bundle.rest.plus(line),
            }
        }
        bundles
    }

    /// **Theorem (line).** Frames of at most `M` over a link of rate `C` end at most `M + C t` bits in a closed window `t`,
    /// because they follow each other. If the port before holds frames for up to `T` and then catches up, `C T` come on
    /// top (docs/bounds.md, "What arrives", 2; "Two kinds of latency").
    ///
    /// **Theorem (aggregate).** All flows of a class and above leave a port within the sum of their contracts there, in a
    /// window longer by `(L_low + M_max - M_min) / C` (docs/bounds.md, "What arrives", 3, with its derivation).
    fn lines(&self, bundle: &Bundle, varies: Num) -> Vec<Line> {
        let mut lines = vec![bundle.contracts];
        let Some(from) = bundle.from else {
            return lines;
        };
        let link = &self.ports[from];
        let ahead = if link.catches_up { link.rate * link.latency } else { Num::ZERO };
        let line = Line { burst: bundle.largest + ahead, rate: link.rate };
        lines.push(line.longer(varies));
        let seen = Seen { port: from, varies: link.variation(), own: None };
        let class = bundle.before;
        let (mut arrived, mut largest, mut smallest) =
            (Line::NOTHING, Num::ZERO, Num(Some(i128::MAX)));
        for &passing in link.passing.iter().filter(|one| self.hop(**one).class >= class) {
            let flow = &self.flows[passing.0];
            arrived = arrived.plus(flow.contract.longer(self.lateness(passing, &seen)));
            largest = largest.max(flow.largest);
            smallest = smallest.min(flow.smallest);
        }
        let low = self.blocking(from, class);
        let (less, more) =
            if link.catches_up { (Num::ZERO, link.latency) } else { (smallest, Num::ZERO) };
        let longer = (low + largest - less).over_up(link.rate) + more;
        let aggregate = arrived.longer(longer).longer(varies);
        // Out of range, or faster than the link: it says nothing.
        if arrived.rate <= link.rate && aggregate.burst.0.is_some() {
            lines.push(aggregate);
        }
        lines
    }

    fn group(&self, bundle: Bundle, varies: Num) -> Group {
        Group {
            lines: self.lines(&bundle, varies),
            contracts: bundle.contracts,
            rest: bundle.rest,
            stairs: bundle.stairs,
        }
    }

    /// **Theorem (service).** A port of rate `C` serves the most urgent class first, in order of arrival within a class,
    /// without preemption. Take the arrivals of the class until `s`, of those above until `s + d`, and the largest lower
    /// frame. If their sum is at most `C (s + d)` for every `s >= 0`, no frame is in the queue for longer than `d`.
    /// Before the queue comes the latency, of at most `T`.
    ///
    /// Sources: docs/bounds.md, "Delay"; Le Boudec, Thiran, theorem 1.4.2 and section 6.2.
    ///
    /// Behind a queue, a latency is part of `d`: the port may be late by it, and then catches up.
    pub(crate) fn delay_holds(&self, port: usize, class: u8, d: Num, own: Option<usize>) -> bool {
        let here = &self.ports[port];
        let served = d - here.latency;
        let d = if here.catches_up { d } else { served };
        let varies = here.variation();
        let seen = Seen { port, varies, own };
        let above = self.bundles(&seen, |_, its| its > class);
        let both = self.bundles(&seen, |_, its| its >= class);
        let mut equal = self.bundles(&seen, |_, its| its == class);
        let mut groups = Vec::new();
        for both in both {
            let find = |list: &[Bundle]| list.iter().position(|one| one.from == both.from);
            let own = find(&equal).map(|at| self.group(equal.swap_remove(at), varies));
            let Some(urgent) = find(&above).map(|at| &above[at]) else {
                groups.extend(own);
                continue;
            };
            let (over, both) = (self.lines(urgent, varies), self.lines(&both, varies));
            groups.push(overtaking(own, &over, urgent, &both, d));
        }
        let limit = here.rate * served - self.blocking(port, class);
        d >= Num::ZERO && fits(&groups, limit, here.rate)
    }

    /// **Theorem (jitter).** A frame leaves a port between `D_min = T_min + M_min / C` and `D` after its arrival. So behind
    /// the port it is later than the earliest by `D - D_min` more (Le Boudec, Thiran, section 1.4; docs/bounds.md,
    /// "Jitter behind the port"). A port that catches up sends faster than `C`: there `D_min` is 0.
    ///
    /// Returns the lateness that must be claimed behind a hop.
    pub(crate) fn lateness_behind(&self, flow: &Flow, hop: &Hop) -> Num {
        let port = &self.ports[hop.port];
        let sending = flow.smallest.over_down(port.rate);
        let least = port.latency_min + if port.catches_up { Num::ZERO } else { sending };
        let delay = port.delays[usize::from(hop.class)].unwrap_or(Num(None));
        hop.late.unwrap_or(Num(None)) + (delay - least).max(Num::ZERO)
    }

    /// **Theorem (memory).** Data that came but have not left are at most the largest excess of all arrivals over `C s`,
    /// without the variation, plus `C T` (docs/bounds.md, "Memory", with its proof; Le Boudec, Thiran, theorem 1.4.1).
    pub(crate) fn memory_holds(&self, port: usize, bits: Num) -> bool {
        let here = &self.ports[port];
        let seen = Seen { port, varies: Num::ZERO, own: None };
        let bundles = self.bundles(&seen, |_, _| true).into_iter();
        let groups: Vec<Group> = bundles.map(|one| self.group(one, Num::ZERO)).collect();
        fits(&groups, bits - here.rate * here.latency, here.rate)
    }

    /// **Theorem (own frames).** In the sum over a stream's route its own frames count at each port as its talker sends
    /// them. A frame that finds more of its own ahead came early. The sum does not contain the time by which it was early.
    ///
    /// Source: docs/bounds.md, "A stream's own frames", with its derivation.
    ///
    /// **Theorem (row).** Ports in a row serve the flows that share them as one server. Latencies add up, and the least
    /// rate remains. With `R_k = C - r_H`, each port `k` makes them wait for `T + (b_H + L_low + b_X) / R_k`. Then it
    /// serves them at `R_k - r_X`. All but the last wait for a whole frame as well.
    ///
    /// Sources: docs/bounds.md, "Ports in a row as one"; Le Boudec, Thiran, proposition 6.4.1, theorems 1.4.6 and 1.7.1.
    pub(crate) fn piece_holds(&self, flow: usize, hops: &[usize], claimed: Num) -> bool {
        let way: Vec<&Hop> = hops.iter().map(|hop| &self.flows[flow].hops[*hop]).collect();
        let (Some(first), Some(last)) = (way.first(), way.last()) else {
            return false;
        };
        if way.len() == 1 {
            // What holds for every frame of the class, and was asked before, holds for these.
            let class = self.ports[first.port].delays[usize::from(first.class)];
            if class.is_some_and(|class| class <= claimed) {
                return true;
            }
            let closed = || self.closed(first.port);
            return self.delay_holds(first.port, first.class, claimed, Some(flow))
                || closed().is_some_and(|closed| closed.within(claimed));
        }
        let sharers = self.sharers(&way);
        let frame = sharers.iter().fold(Num::ZERO, |most, one| most.max(self.flows[*one].largest));
        let (mut waits, mut rate) = (Num::ZERO, Num(Some(i128::MAX)));
        for hop in &way {
            let port = &self.ports[hop.port];
            let seen = Seen { port: hop.port, varies: port.variation(), own: None };
            let sum = |chosen: &dyn Fn(Passing, u8) -> bool| {
                let bundles = self.bundles(&seen, chosen).into_iter();
                bundles.fold(Line::NOTHING, |sum, one| sum.plus(one.contracts))
            };
            let above = sum(&|_, its| its > hop.class);
            let others = sum(&|(flow, _), its| its == hop.class && !sharers.contains(&flow));
            let served = port.rate - above.rate;
            let late = if port.catches_up { port.rate * port.latency } else { Num::ZERO };
            let first = above.burst + self.blocking(hop.port, hop.class) + others.burst + late;
            waits = waits + first.over_up(served);
            if !port.catches_up {
                waits = waits + port.latency;
            }
            if hop.port != last.port {
                waits = waits + frame.over_up(port.rate);
            }
            rate = rate.min(served - others.rate);
        }
        let seen = Seen { port: first.port, varies: self.ports[first.port].variation(), own: None };
        let bundles =
            self.bundles(&seen, |(flow, _), its| its == first.class && sharers.contains(&flow));
        let groups: Vec<Group> =
            bundles.into_iter().map(|one| self.group(one, seen.varies)).collect();
        rate > Num::ZERO && fits(&groups, (claimed - waits) * rate, rate)
    }

    /// Returns the flows that pass these hops one after the other, in the same classes.
    fn sharers(&self, way: &[&Hop]) -> Vec<usize> {
        let shares = |flow: &Flow, start: usize| {
            let mut at = start;
            way.iter().enumerate().all(|(number, wanted)| {
                let fits = |hop: &Hop| hop.port == wanted.port && hop.class == wanted.class;
                if number == 0 {
                    return fits(&flow.hops[at]);
                }
                let mut next = flow.hops.iter();
                let next = next.position(|hop| hop.before == Some(at) && fits(hop));
                next.inspect(|next| at = *next).is_some()
            })
        };
        let passing = way.first().map_or(&[][..], |first| &self.ports[first.port].passing);
        let found = passing.iter().filter(|(flow, hop)| shares(&self.flows[*flow], *hop));
        found.map(|(flow, _)| *flow).collect()
    }
}

/// Returns the arrivals over one input of a class until `s` and of those above it until `s + d`.
///
/// Each of these bounds holds. First: a line of the class, and one of those above for a window longer by `d`. Second: a
/// line of both, and the arrivals of those above in a window of `d`. Third: a line of both for a window longer by `d`.
fn overtaking(own: Option<Group>, above: &[Line], urgent: &Bundle, both: &[Line], d: Num) -> Group {
    let none = Line::NOTHING;
    let nothing = || Group { contracts: none, lines: vec![none], rest: none, stairs: Vec::new() };
    let mut group = own.unwrap_or_else(nothing);
    group.contracts = group.contracts.plus(urgent.contracts.longer(d));
    group.rest = group.rest.plus(urgent.rest.longer(d));
    for stair in &urgent.stairs {
        group.stairs.push(crate::curve::Stair { jitter: stair.jitter + d, ..*stair });
    }
    let mut lines = Vec::new();
    for equal in &group.lines {
        lines.extend(above.iter().map(|above| equal.plus(above.longer(d))));
    }
    let within = above.iter().map(|line| line.longer(d).burst);
    let within = within.reduce(Num::min).unwrap_or(Num(None));
    for line in both {
        lines.push(Line { burst: line.burst + within, ..*line });
        lines.push(line.longer(d));
    }
    group.lines = lines;
    group
}
