//! Credits and regulators as in the standards: a counter that rises and falls, and the time at which a frame may pass.

use crate::fixed::Bucket;
use crate::model::{Model, NONE};

/// The credit counter of a credit-based shaper (802.1Q, clause 8.6.8.2).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Credit {
    idle_bps: i128,
    send_bps: i128,
    /// Value at `since_ps` in 10^-12 bit.
    value: i128,
    since_ps: u64,
}

impl Credit {
    pub(crate) fn new(idle_bps: u64, rate_bps: u64) -> Credit {
        Credit {
            idle_bps: i128::from(idle_bps),
            send_bps: i128::from(rate_bps) - i128::from(idle_bps),
            value: 0,
            since_ps: 0,
        }
    }

    /// Advances the counter to `now_ps`. `waits` must be true if frames have waited since the last call.
    pub(crate) fn look(&mut self, now_ps: u64, waits: bool) {
        let Some(passed) = now_ps.checked_sub(self.since_ps) else {
            // A frame of this class is still being sent.
            return;
        };
        let risen = self.value + self.idle_bps * i128::from(passed);
        self.value = if waits {
            risen
        } else {
            // Without frames the counter rises only to zero, and a positive value is lost.
            risen.min(0)
        };
        self.since_ps = now_ps;
    }

    /// Charges a frame that is sent until `end_ps`.
    pub(crate) fn send(&mut self, took_ps: u64, end_ps: u64) {
        self.value -= self.send_bps * i128::from(took_ps);
        self.since_ps = end_ps;
    }

    /// Returns the time at which a frame may be sent, ps, at least `now_ps`.
    pub(crate) fn ready_ps(&self, now_ps: u64) -> u64 {
        if self.value >= 0 {
            return now_ps.max(self.since_ps);
        }
        let wait = (-self.value + self.idle_bps - 1) / self.idle_bps.max(1);
        let wait = u64::try_from(wait).unwrap_or(u64::MAX);
        now_ps.max(self.since_ps.saturating_add(wait))
    }
}

/// The regulators of all ports: one for each input, previous class and class. Each is a queue whose head waits for its
/// own stream's tokens.
#[derive(Clone, Debug)]
pub(crate) struct Regulators {
    /// The bucket of each edge.
    buckets: Vec<Option<Bucket>>,
    /// The time at which each regulator's last frame passed, ps.
    last_ps: Vec<u64>,
}

impl Regulators {
    pub(crate) fn new(model: &Model) -> Regulators {
        let mut regulators = Regulators {
            buckets: vec![None; model.edges.len()],
            last_ps: vec![0; model.regulators],
        };
        regulators.reset(model);
        regulators
    }

    pub(crate) fn reset(&mut self, model: &Model) {
        self.last_ps.fill(0);
        for (bucket, edge) in self.buckets.iter_mut().zip(&model.edges) {
            *bucket = (edge.regulator != NONE).then(|| {
                let flow = &model.flows[edge.flow as usize];
                Bucket::new(flow.regulated_rate, flow.burst, u64::from(flow.bits))
            });
        }
    }

    /// Returns the time at which a frame that arrives now passes its edge's regulator, ps; `None` if never.
    pub(crate) fn pass_ps(
        &mut self,
        model: &Model,
        edge: u32,
        now_ps: u64,
        bits: u32,
    ) -> Option<u64> {
        let bucket = self.buckets[model.edges[edge as usize].bucket as usize].as_mut()?;
        let last = &mut self.last_ps[model.edges[edge as usize].regulator as usize];
        // It passes after the frames that arrived before it, whatever their stream.
        let at = bucket.earliest_ps(now_ps.max(*last), u64::from(bits))?;
        bucket.take(at, u64::from(bits));
        *last = at;
        Some(at)
    }
}
