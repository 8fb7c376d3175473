//! What a check says.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::change::Wanted;

/// How much a fact matters.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Good,
    /// Decides what is possible; nothing is wrong.
    Note,
    /// Could not be found out.
    Unknown,
    /// Adds delay that a deadline may or may not bear.
    Weak,
    /// Breaks deadlines, or keeps the network from working at all.
    Fault,
}

impl Level {
    /// In a word.
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

/// Which part of the host a fact is about.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Area {
    /// The kernel itself.
    Kernel,
    /// The processors.
    Processors,
    /// What this process may do.
    Limits,
    /// Interrupts and polling.
    Interrupts,
    /// The interface.
    Interface,
    /// Its driver.
    Driver,
    /// Queueing disciplines.
    Queues,
    /// Who else talks and listens.
    Talkers,
    /// Clocks.
    Clock,
}

impl Area {
    /// In a word.
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

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Certainty {
    /// The kernel says so.
    Read,
    /// It was tried.
    Tried,
    /// It follows from other facts, and may be wrong where the driver or the firmware hides something.
    Concluded,
}

impl Certainty {
    /// In a few words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::Read => "read from the kernel",
            Self::Tried => "tried out",
            Self::Concluded => "concluded, not proven",
        }
    }
}

/// What changes a fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Remedy {
    /// The exact command, or what to do where no command does it.
    pub command: String,
    /// Whether `--fix` does it: it takes effect at once, harms no other work, and can be undone.
    pub safe: bool,
    /// What `--fix` sets.
    #[serde(skip)]
    pub wanted: Vec<Wanted>,
}

/// One fact.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// A name for programs: `interface.coalescing`.
    pub id: String,
    /// Which part of the host.
    pub area: Area,
    /// How much it matters.
    pub level: Level,
    /// What was found.
    pub found: String,
    /// Why it matters.
    pub why: String,
    /// How sure this is.
    pub certainty: Certainty,
    /// What would change it, where something is to be changed.
    pub remedy: Option<Remedy>,
}

impl Finding {
    /// A fact that the kernel states and that is as it should be.
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

    /// The same at another level.
    pub(super) fn at(mut self, level: Level) -> Self {
        self.level = level;
        self
    }

    /// The same, less or more sure.
    pub(super) fn sure(mut self, certainty: Certainty) -> Self {
        self.certainty = certainty;
        self
    }

    /// With what a person does about it.
    pub(super) fn by_hand(mut self, command: impl Into<String>) -> Self {
        self.remedy = Some(Remedy {
            command: command.into(),
            safe: false,
            wanted: Vec::new(),
        });
        self
    }

    /// With what `--fix` does about it; the command is what these settings are for a person.
    pub(super) fn fixed_by(mut self, wanted: Vec<Wanted>) -> Self {
        let commands: Vec<String> = wanted.iter().map(Wanted::command).collect();
        self.remedy = Some(Remedy {
            command: commands.join("; "),
            safe: true,
            wanted,
        });
        self
    }

    /// Whether it can break a deadline.
    #[must_use]
    pub fn endangers(&self) -> bool {
        self.level >= Level::Weak
    }
}
