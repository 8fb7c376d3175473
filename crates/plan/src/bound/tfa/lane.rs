//! The lane of an examined frame: the frames of its class that come over its input link. They stay in order on the way
//! to the queue, and their link sends one at a time.

use super::{AddedJitter, Analysis};
use crate::bound::arrivals::{Bundle, Class};
use crate::bound::excess::{Arrivals, Last};
use crate::bound::fixed::{Data, Line, Time, quotient_down};
use crate::bound::mutation::{Term, keeps};
use rtwire_describe::ratio::Overflow;

/// The arrivals that may be ahead of an examined frame in its lane.
pub(in crate::bound) struct Lane {
    /// The server at the other end of its link.
    pub(in crate::bound) from: usize,
    /// The lines of all its frames together.
    pub(in crate::bound) lines: Vec<Line>,
    /// The frames of the examined stream, and the others. Nothing is known of the classes above.
    pub(in crate::bound) last: Last,
}

impl Analysis<'_> {
    /// Returns the lane of a flow's frames at a hop, with its own frames as its talker sends them. `None` if it has
    /// none there.
    pub(in crate::bound) fn lane(&self, flow: usize, hop: usize) -> Result<Option<Lane>, Overflow> {
        let hops = &self.graph.flows[flow].hops;
        let (server, class) = (hops[hop].server, hops[hop].class);
        let Some(from) = hops[hop].before.map(|before| hops[before].server) else {
            return Ok(None);
        };
        // One that catches up may send a frame while it still sends another one, and a frame that is interrupted ends
        // behind the one that came between.
        let catches_up = self.graph.servers[from].catches_up && keeps(Term::LastCatchingUp);
        let preempts = self.servers[from].preemption.is_some() && keeps(Term::LastInterrupted);
        let unused = !self.method.last_on_link;
        if unused || catches_up || preempts || self.is_metered(flow, hop) {
            return Ok(None);
        }
        let (mut own, mut others) = (Class::default(), Class::default());
        for &(other, at) in &self.passing[server] {
            let (other, at) = (other as usize, at as usize);
            let its = &self.graph.flows[other].hops;
            let Some(before) = its[at].before.map(|before| its[before]) else {
                continue;
            };
            if before.server != from || its[at].class != class {
                continue;
            }
            if self.is_metered(other, at) {
                return Ok(None);
            }
            let numbers = &self.flows[other];
            let examined = (other, at) == (flow, hop);
            let added = if examined {
                Some(AddedJitter::default())
            } else {
                self.added_jitter[numbers.first + at]
            };
            let Some(added) = added else {
                return Ok(None);
            };
            // In order, so that their latencies bring none of them nearer to the examined frame.
            let Some(line) = self.line_at(other, at, added, 0)? else {
                return Ok(None);
            };
            let into = if examined { &mut own } else { &mut others };
            into.joined_by(numbers, Some(before.class), false);
            into.bring(numbers, line, Some(added.late))?;
        }
        let link = Some(&self.departures[from]);
        let mut all = Bundle::default();
        all.add(&own)?;
        all.add(&others)?;
        if !keeps(Term::LastOthers) {
            others = Class::default();
        }
        if !keeps(Term::LastFrame) {
            others.uninterrupted = 0;
        }
        let arrivals = |class: Class| -> Result<Arrivals, Overflow> {
            let mut bundle = Bundle::default();
            bundle.add(&class)?;
            Ok(Arrivals {
                lines: bundle.lines(link, 0)?,
                rest: class.rest,
                stairs: class.stairs,
                last: None,
            })
        };
        let sent = if keeps(Term::LastSmallest) {
            self.flows[flow].smallest
        } else {
            self.flows[flow].largest
        };
        let ahead: Time = quotient_down(sent, self.servers[from].rate_up)?;
        let own = if keeps(Term::LastOwn) {
            arrivals(own)?
        } else {
            only(self.flows[flow].largest)
        };
        Ok(Some(Lane {
            from,
            lines: all.lines(link, 0)?,
            last: Last {
                ahead,
                own,
                others: arrivals(others)?,
                above: Arrivals::default(),
            },
        }))
    }
}

/// Returns the arrivals of one frame.
fn only(frame: Data) -> Arrivals {
    Arrivals {
        lines: vec![Line {
            burst: frame,
            rate: 0,
        }],
        ..Arrivals::default()
    }
}

impl Lane {
    /// Returns what comes with the examined frame, for a class above which nothing comes.
    pub(super) fn arrivals(&self) -> Arrivals {
        Arrivals {
            lines: self.lines.clone(),
            last: Some(Box::new(self.last.clone())),
            ..Arrivals::default()
        }
    }
}

/// Returns the lane if it is that of an input.
pub(super) fn of(lane: Option<&Lane>, from: Option<usize>) -> Option<&Lane> {
    lane.filter(|lane| Some(lane.from) == from)
}
