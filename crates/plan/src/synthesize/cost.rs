//! The cost of a choice: five numbers, the first of which counts most.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::space::{Entry, Pick};

/// The objective: what costs most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The fewest changes: streams changed, then values changed, then their distance from the file.
    #[default]
    Changes,
    /// The simplest network: time-triggered streams, then priorities in use, then links beyond the fewest, then streams
    /// changed, then distance.
    Simple,
}

/// One number of a cost.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CostPart {
    /// Its name.
    pub name: String,
    /// The number.
    pub value: u64,
}

/// The numbers of a cost in their order.
pub(super) type Cost = [u64; 5];

/// The sums of which a cost is made. They grow with each stream, and so does the cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sums {
    scheduled: u32,
    /// A bit for each priority in use.
    priorities: u8,
    longer: u32,
    streams: u32,
    values: u32,
    distance: u32,
}

impl Sums {
    /// Adds a stream with these values.
    pub(super) fn with(mut self, entry: &Entry, pick: Pick) -> Sums {
        let stated = Pick::default();
        self.scheduled += u32::from(entry.is_scheduled(pick));
        self.priorities |= 1 << (entry.priority(pick) & 7);
        let links = |pick: Pick| {
            entry
                .route(pick)
                .map_or(0, |route| route.len().saturating_sub(1))
        };
        let whole = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        if entry.route(pick).is_some() {
            self.longer += whole(links(pick).saturating_sub(entry.fewest_links));
        }
        self.streams += u32::from(pick != stated);
        let changed = [
            pick.priority != 0,
            pick.route != 0,
            pick.interval != 0,
            pick.scheduled != 0,
        ];
        self.values += whole(changed.into_iter().filter(|one| *one).count());
        let moved = entry.priority(pick).abs_diff(entry.priority(stated));
        self.distance += u32::from(moved) + u32::from(pick.interval) + u32::from(pick.scheduled);
        if pick.route != 0 {
            self.distance += 1 + whole(links(pick).abs_diff(links(stated)));
        }
        self
    }

    pub(super) fn cost(self, objective: Objective) -> Cost {
        let (streams, distance) = (u64::from(self.streams), u64::from(self.distance));
        match objective {
            Objective::Changes => [streams, u64::from(self.values), distance, 0, 0],
            Objective::Simple => [
                u64::from(self.scheduled),
                u64::from(self.priorities.count_ones()),
                u64::from(self.longer),
                streams,
                distance,
            ],
        }
    }
}

impl Objective {
    /// Returns the names of the numbers of a cost, in their order.
    #[must_use]
    pub const fn parts(self) -> &'static [&'static str] {
        match self {
            Objective::Changes => &["streams changed", "values changed", "distance"],
            Objective::Simple => &[
                "time-triggered streams",
                "priorities in use",
                "links beyond the fewest",
                "streams changed",
                "distance",
            ],
        }
    }

    pub(super) fn named(self, cost: Cost) -> Vec<CostPart> {
        let pairs = self.parts().iter().zip(cost);
        pairs
            .map(|(name, value)| CostPart {
                name: (*name).to_owned(),
                value,
            })
            .collect()
    }
}
