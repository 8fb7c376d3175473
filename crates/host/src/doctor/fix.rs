//! Makes the safe changes that an examination names, as one transaction.

use std::path::Path;

use super::Examination;
use super::finding::Finding;
use crate::HostError;
use crate::change::{self, ApplyError, Change, Header, Progress, Record, RecordError, Wanted};
use crate::netlink::Netlink;

/// The reason why the safe changes were not made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FixError {
    /// A setting could not be read.
    #[error(transparent)]
    Host(#[from] HostError),
    /// The undo record could not be begun or ended.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A change was refused or is not in force; those before it were put back.
    #[error(transparent)]
    Change(#[from] ApplyError),
}

impl Examination {
    /// Returns the settings of the safe remedies for findings that endanger a deadline. Pure.
    #[must_use]
    pub fn remedies(&self) -> Vec<Wanted> {
        self.findings
            .iter()
            .filter(|finding| finding.endangers())
            .filter_map(|Finding { remedy, .. }| remedy.as_ref())
            .flat_map(|remedy| remedy.wanted.clone())
            .collect()
    }

    /// Makes the changes of [`Examination::remedies`] that are not in force yet, or none of them. The undo record in
    /// `directory` is that of the interface, otherwise of `host`. Calls `progress` for each change, and returns the
    /// number of changes.
    ///
    /// # Errors
    /// [`FixError`]; the host is as before unless the message says that putting back failed too.
    pub fn fix(
        &self,
        directory: &Path,
        progress: &mut dyn FnMut(&Change, Progress),
    ) -> Result<usize, FixError> {
        let mut netlink = Netlink::new();
        let changes = change::pending::<HostError>(&mut netlink, &self.remedies(), &|_, _| Ok(()))?;
        if changes.is_empty() {
            return Ok(0);
        }
        let scope = self.interface.as_deref().unwrap_or("host");
        let header = Header::new("rtwire doctor --fix", scope, None);
        let record = Record::begin(directory, header)?;
        change::apply(&mut netlink, record, &changes, progress)?.confirm()?;
        Ok(changes.len())
    }
}
