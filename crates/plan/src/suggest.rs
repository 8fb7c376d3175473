//! Finds the nearest change that fits. Each is planned again before it is named.

mod more;
mod schedule;

use crate::evaluate::evaluate;
use crate::network::{ContractKind, Network};
use crate::plan::{Options, Plan};
use crate::refusal::Reason;
use crate::schedule::{LEAST_WORK, Scheduling};
use crate::show::show_ns;
use crate::suggestion::{ChangeKind, Suggestion};
use rtwire_describe::ratio::{Overflow, Ratio};

/// The largest number of hops to plan, all trials together. A large network gets fewer trials, not a long wait.
const MOST_HOPS: usize = 100_000;

/// Rates of Ethernet, bit/s.
const LINK_RATES: [u64; 7] = [
    10_000_000,
    100_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
    25_000_000_000,
];

struct Search<'a> {
    /// The network with every shaper on.
    base: Network,
    unshaped: Vec<String>,
    reasons: &'a [Reason],
    trials: usize,
    /// Called before each trial and between its rounds of search. If it returns false, the work ends.
    go_on: &'a mut dyn FnMut() -> bool,
}

impl Search<'_> {
    fn plan(&mut self, network: &Network) -> Option<(Plan, Vec<Reason>)> {
        self.trials = self.trials.checked_sub(1)?;
        // A reader of descriptions would refuse it.
        if !network.cyclic_faults().is_empty() {
            return None;
        }
        if !(self.go_on)() {
            return None;
        }
        let mut scheduling = Scheduling {
            work: LEAST_WORK,
            ..Scheduling::new(&mut self.go_on)
        };
        evaluate(network, &Options::default(), &mut scheduling).ok()
    }

    fn fits(&mut self, network: &Network) -> bool {
        self.plan(network)
            .is_some_and(|(_, reasons)| reasons.is_empty())
    }

    /// Returns the largest value of `1..=most` with which the changed network fits.
    fn largest(
        &mut self,
        most: u64,
        change: impl Fn(&mut Network, u64) -> Result<(), Overflow>,
    ) -> Option<u64> {
        let mut try_one = |value: u64| {
            let mut trial = self.base.clone();
            change(&mut trial, value).is_ok() && self.fits(&trial)
        };
        if most == 0 || !try_one(1) {
            return None;
        }
        let (mut fits, mut too_large) = (1, most + 1);
        while too_large - fits > 1 {
            let middle = fits + (too_large - fits) / 2;
            if try_one(middle) {
                fits = middle;
            } else {
                too_large = middle;
            }
        }
        Some(fits)
    }

    /// Returns the streams that share this one's entry in the file: itself, and its other copy.
    fn copies(&self, index: usize) -> Vec<usize> {
        let name = self.base.streams[index].stated_name();
        let all = self.base.streams.iter().enumerate();
        all.filter(|(_, stream)| stream.stated_name() == name)
            .map(|(at, _)| at)
            .collect()
    }

    /// Returns the name in the file for a stream that a reason names.
    fn stated(&self, name: &str) -> String {
        let mut streams = self.base.streams.iter();
        let stream = streams.find(|stream| stream.name == name);
        stream
            .map_or(name, |stream| stream.stated_name())
            .to_owned()
    }

    fn suggestion(&self, kind: ChangeKind, of: Vec<String>, mut parts: Vec<String>) -> Suggestion {
        if !self.unshaped.is_empty() && kind != ChangeKind::Shaper {
            parts.insert(0, format!("shaper = \"on\" for {}", quoted(&self.unshaped)));
        }
        let change = parts.join(" and ");
        Suggestion {
            kind,
            of,
            change,
            parts,
        }
    }
}

pub(crate) fn quoted(names: &[String]) -> String {
    names
        .iter()
        .map(|name| format!("\"{name}\""))
        .collect::<Vec<_>>()
        .join(", ")
}

/// Finds changes, each sufficient by itself.
pub(crate) fn suggest(
    network: &Network,
    reasons: &[Reason],
    go_on: &mut dyn FnMut() -> bool,
) -> Vec<Suggestion> {
    let mut base = network.clone();
    let unshaped: Vec<String> = network
        .streams
        .iter()
        .filter(|stream| !stream.shaped && stream.copy_of.is_none())
        .map(|stream| stream.name.clone())
        .collect();
    for stream in &mut base.streams {
        stream.shaped = true;
    }
    let hops: usize = network
        .streams
        .iter()
        .flat_map(|stream| &stream.routes)
        .map(Vec::len)
        .sum();
    let trials = (MOST_HOPS / hops.max(1)).clamp(8, 400);
    let mut search = Search {
        base,
        unshaped,
        reasons,
        trials,
        go_on,
    };
    let mut found = Vec::new();
    let base = search.base.clone();
    if !search.unshaped.is_empty() && search.fits(&base) {
        let change = format!("shaper = \"on\" for {}", quoted(&search.unshaped));
        let of = search.unshaped.clone();
        return vec![search.suggestion(ChangeKind::Shaper, of, vec![change])];
    }
    found.extend(limits(&mut search));
    found.extend(shaping_interval(&mut search));
    found.extend(more::idle_slope(&mut search));
    found.extend(more::regulators(&mut search));
    let one = priority(&mut search);
    found.extend(one.or_else(|| more::priorities(&mut search)));
    found.extend(more::best_effort_frame(&mut search));
    found.extend(more::link_rate(&mut search));
    found.extend(lower_rate(&mut search));
    found.extend(schedule::changes(&mut search));
    found
}

/// Tries one shaping interval for all that have a larger one, in whole microseconds.
fn shaping_interval(search: &mut Search<'_>) -> Option<Suggestion> {
    let shaped = |network: &Network| {
        let streams = network
            .streams
            .iter()
            .filter(|stream| stream.contract.kind == ContractKind::Rate);
        streams
            .map(|stream| stream.contract.shaping_interval_ns)
            .collect::<Vec<_>>()
    };
    let largest_ns = shaped(&search.base).into_iter().max()?;
    let found = search.largest((largest_ns - 1) / 1_000, |network, us| {
        let limited = network
            .streams
            .iter_mut()
            .filter(|stream| stream.contract.kind == ContractKind::Rate);
        for stream in limited.filter(|stream| stream.contract.shaping_interval_ns > us * 1_000) {
            stream.set_shaping_interval(us * 1_000)?;
        }
        Ok(())
    })?;
    let change = format!(
        "shaping-interval = \"{}\" or less, in place of up to {}",
        show_ns(found * 1_000),
        show_ns(largest_ns)
    );
    let of = search
        .base
        .streams
        .iter()
        .filter(|stream| stream.contract.kind == ContractKind::Rate);
    let of = of.filter(|stream| {
        stream.contract.shaping_interval_ns > found * 1_000 && stream.copy_of.is_none()
    });
    let of = of.map(|stream| stream.name.clone()).collect();
    Some(search.suggestion(ChangeKind::ShapingInterval, of, vec![change]))
}

/// Tries deadlines and buffers as large as the bounds require.
fn limits(search: &mut Search<'_>) -> Option<Suggestion> {
    let mut trial = search.base.clone();
    let (_, reasons) = search.plan(&trial)?;
    if reasons.iter().any(Reason::is_unbounded) {
        return None;
    }
    let (mut of, mut words) = (Vec::new(), Vec::new());
    for switch in &mut trial.switches {
        // Ports share one size: the one that needs most decides.
        let (mut bytes, mut frames) = (0, 0);
        for reason in &reasons {
            match reason {
                Reason::Buffer {
                    node, needed_bytes, ..
                }
                | Reason::SharedBuffer {
                    node, needed_bytes, ..
                } if *node == switch.name => {
                    bytes = bytes.max(*needed_bytes);
                }
                Reason::BufferFrames {
                    node,
                    needed_frames,
                    ..
                }
                | Reason::SharedBufferFrames {
                    node,
                    needed_frames,
                    ..
                } if *node == switch.name => {
                    frames = frames.max(*needed_frames);
                }
                _ => {}
            }
        }
        if bytes == 0 && frames == 0 {
            continue;
        }
        let key = if switch.buffer.shared {
            "shared-buffer"
        } else {
            "buffer"
        };
        let old = switch.buffer;
        match old
            .frames
            .map(|count| (count, (old.bytes / count.max(1)).max(1)))
        {
            Some((count, size)) => {
                let count = count.max(frames).max(bytes.div_ceil(size));
                switch.buffer.frames = Some(count);
                switch.buffer.bytes = count.checked_mul(size)?;
                words.push(format!(
                    "{key} = \"{count} x {size} B\" at {} \"{}\" ({} B)",
                    switch.kind_word(),
                    switch.name,
                    crate::show::grouped(switch.buffer.bytes)
                ));
            }
            None => {
                switch.buffer.bytes = bytes;
                words.push(format!(
                    "{key} = \"{bytes} B\" at {} \"{}\"",
                    switch.kind_word(),
                    switch.name
                ));
            }
        }
        of.push(switch.name.clone());
    }
    let late: Vec<(String, u64)> = reasons
        .iter()
        .filter_map(|reason| match reason {
            Reason::Deadline {
                stream, delay_ns, ..
            } => Some((search.stated(stream), *delay_ns)),
            _ => None,
        })
        .collect();
    for stream in &mut trial.streams {
        let own = late.iter().filter(|(name, _)| name == stream.stated_name());
        if let Some(latest) = own.map(|(_, delay_ns)| *delay_ns).max() {
            stream.deadline_ns = Some(latest);
            if stream.copy_of.is_none() {
                words.push(format!(
                    "deadline = \"{}\" for \"{}\"",
                    show_ns(latest),
                    stream.name
                ));
                of.push(stream.name.clone());
            }
        }
    }
    // More frames than before may now be counted against a limit that was hidden by the first: plan again.
    let fits = !words.is_empty() && search.fits(&trial);
    fits.then(|| search.suggestion(ChangeKind::Limits, of, words))
}

/// Tries a higher priority for one late stream.
fn priority(search: &mut Search<'_>) -> Option<Suggestion> {
    let late: Vec<String> = search
        .reasons
        .iter()
        .filter_map(|reason| match reason {
            Reason::Deadline { stream, .. } => Some(search.stated(stream)),
            _ => None,
        })
        .collect();
    for name in late {
        let index = search
            .base
            .streams
            .iter()
            .position(|stream| stream.name == name)?;
        for pcp in search.base.streams[index].pcp + 1..=7 {
            let mut trial = search.base.clone();
            for copy in search.copies(index) {
                trial.streams[copy].pcp = pcp;
            }
            if search.fits(&trial) {
                let change = format!(
                    "priority = {pcp} for \"{name}\", in place of {}",
                    search.base.streams[index].pcp
                );
                return Some(search.suggestion(ChangeKind::Priority, vec![name], vec![change]));
            }
        }
    }
    None
}

/// Tries the smallest reduction of one stream's rate, in whole kbit/s of frame bytes.
fn lower_rate(search: &mut Search<'_>) -> Option<Suggestion> {
    let mut by_rate: Vec<usize> = (0..search.base.streams.len()).collect();
    by_rate.retain(|index| {
        let stream = &search.base.streams[*index];
        stream.copy_of.is_none() && !matches!(stream.contract.kind, ContractKind::Interval { .. })
    });
    by_rate.sort_by_key(|index| core::cmp::Reverse(search.base.streams[*index].contract.rate));
    let mut best: Option<(u64, u64, usize)> = None;
    for index in by_rate.into_iter().take(4) {
        let stream = search.base.streams[index].clone();
        let (wire, frame) = (
            i128::from(stream.wire_bytes),
            i128::from(stream.frame_bytes),
        );
        let stated = stream
            .contract
            .rate
            .times(Ratio::new(frame, wire).ok()?)
            .ok()?;
        let kbit = u64::try_from(stated.floor() / 1_000).ok()?;
        let copies = search.copies(index);
        let found = search.largest(kbit, |network, kbit| {
            let rate = Ratio::whole(i128::from(kbit) * 1_000).times(Ratio::new(wire, frame)?)?;
            let mut copies = copies.iter();
            copies.try_for_each(|copy| network.streams[*copy].set_rate(rate))
        });
        if let Some(found) = found {
            let lost = kbit - found;
            if best.is_none_or(|(least, _, _)| lost < least) {
                best = Some((lost, found, index));
            }
        }
    }
    let (_, kbit, index) = best?;
    let name = search.base.streams[index].name.clone();
    let change = format!("rate = \"{kbit} kbit/s\" or less for \"{name}\"");
    Some(search.suggestion(ChangeKind::Rate, vec![name], vec![change]))
}
