//! The stages of a session, in words.

/// A stage of a session: the request that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Hello,
    Library,
    Names,
    Counters,
    Lock,
    Before,
    Edit,
    Taken,
    Commit,
    InForce,
    Decision,
    Confirm,
    Restart,
    Discard,
    Cancel,
    Restored,
    Unlock,
    Close,
    Over,
}

impl Stage {
    /// Returns the request as a verb phrase, for messages.
    pub(crate) fn request(self) -> &'static str {
        match self {
            Stage::Hello => "to say hello",
            Stage::Library => "to list its modules",
            Stage::Names => "to list its interfaces",
            Stage::Counters => "to show its counters",
            Stage::Lock => "to lock the candidate settings",
            Stage::Before | Stage::InForce | Stage::Restored => "to show the settings in force",
            Stage::Edit => "to take the settings",
            Stage::Taken => "to show the candidate settings",
            Stage::Commit => "to put the settings into force",
            Stage::Decision | Stage::Confirm => "to confirm the settings",
            Stage::Restart => "to keep the settings for a restart",
            Stage::Discard => "to discard the candidate settings",
            Stage::Cancel => "to put the settings back",
            Stage::Unlock => "to unlock the settings",
            Stage::Close | Stage::Over => "to close the session",
        }
    }
}
