//! The result of a check.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::Wanted;

/// The weight of a fact.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Good,
    /// Limits what is possible; nothing is wrong.
    Note,
    /// Could not be determined.
    Unknown,
    /// Adds delay that a deadline may or may not bear.
    Weak,
    /// Breaks deadlines, or keeps the network from working at all.
    Fault,
}

impl Level {
    /// Returns the level in a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Note => "note",
            Self::Unknown => "unknown",
            Self::Weak => "weak",
            Self::Fault => "FAULT",
        }
    }
}

/// The part of the host that a fact is about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// The kernel itself.
    Kernel,
    /// The processors.
    Processors,
    /// The privileges and limits of this process.
    Limits,
    /// Interrupts and polling.
    Interrupts,
    /// The interface.
    Interface,
    /// Its driver.
    Driver,
    /// Queueing disciplines.
    Queues,
    /// Other talkers and listeners.
    Talkers,
    /// Clocks.
    Clock,
}

impl Area {
    /// Returns the area in a word.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Processors => "processors",
            Self::Limits => "limits",
            Self::Interrupts => "interrupts",
            Self::Interface => "interface",
            Self::Driver => "driver",
            Self::Queues => "queues",
            Self::Talkers => "other traffic",
            Self::Clock => "clocks",
        }
    }
}

/// The certainty of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The kernel says so.
    Read,
    /// It was tried.
    Tried,
    /// It follows from other facts. It may be wrong if the driver or the firmware hides something.
    Concluded,
}

impl Certainty {
    /// Returns the certainty in a few words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Read => "read from the kernel",
            Self::Tried => "tried out",
            Self::Concluded => "concluded, not proven",
        }
    }
}

/// The remedy for a fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// The exact command, or the step to take if no command does it.
    pub command: String,
    /// True if `--fix` applies it: it takes effect at once, harms no other work, and can be undone.
    pub safe: bool,
    /// The settings that `--fix` makes.
    #[serde(skip)]
    pub wanted: Vec<Wanted>,
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// A name for programs: `interface.coalescing`.
    pub id: String,
    /// The part of the host.
    pub area: Area,
    /// The weight.
    pub level: Level,
    /// The fact found.
    pub found: String,
    /// The reason why it matters.
    pub why: String,
    /// The certainty.
    pub certainty: Certainty,
    /// The remedy, where one is needed.
    pub remedy: Option<Remedy>,
}

impl Finding {
    /// Makes a finding that the kernel states and that is as it should be.
    pub(super) fn good(area: Area, id: &str, found: impl Into<String>, why: &str) -> Self {
        Self {
            id: id.to_owned(),
            area,
            level: Level::Good,
            found: found.into(),
            why: why.to_owned(),
            certainty: Certainty::Read,
            remedy: None,
        }
    }

    /// Returns the finding at another level.
    pub(super) fn at(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// Returns the finding with another certainty.
    pub(super) fn sure(mut self, certainty: Certainty) -> Self {
        self.certainty = certainty;
        self
    }

    /// Returns the finding with a remedy that a person applies.
    pub(super) fn by_hand(mut self, command: impl Into<String>) -> Self {
        self.remedy = Some(Remedy {
            command: command.into(),
            safe: false,
            wanted: Vec::new(),
        });
        self
    }

    /// Returns the finding with a remedy that `--fix` applies. The command shows these settings to a person.
    pub(super) fn fixed_by(mut self, wanted: Vec<Wanted>) -> Self {
        let commands: Vec<String> = wanted.iter().map(Wanted::command).collect();
        self.remedy = Some(Remedy {
            command: commands.join("; "),
            safe: true,
            wanted,
        });
        self
    }

    /// Returns whether the finding can break a deadline.
    #[must_use]
    pub fn endangers(&self) -> bool {
        self.level >= Level::Weak
    }
}
