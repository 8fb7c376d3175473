//! The store: connections that outlive the manager, in a file or in etcd.

use std::fmt::Debug;
use std::path::Path;

use rtwire_manager::{Change, CodecError, Restored, Stored, budgets_from_bytes, budgets_to_bytes};
use rtwire_plan::admission::Budgets;

use crate::ManagerdError;

/// The fingerprint of the plan.
const PLAN_ID: &str = "plan_id";
const BUDGETS: &str = "budgets";
const LONGEST_LIFETIME: &str = "longest_lifetime_us";
/// The largest id that a connection ever had.
pub(crate) const LAST_CONNECTION: &str = "last_connection";
/// The newest epoch.
pub(crate) const EPOCH: &str = "epoch";

/// The store of one network's manager. Only one process can change it at a time.
pub trait Store: Debug + Send {
    /// Returns the name of its place for messages: a folder, or an address.
    fn place(&self) -> &Path;

    /// Reads a single value.
    ///
    /// # Errors
    /// The error of the store.
    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, ManagerdError>;

    /// Writes single values as one. They last when this returns.
    ///
    /// # Errors
    /// The error of the store.
    fn set(&mut self, values: &[(&str, &[u8])]) -> Result<(), ManagerdError>;

    /// Reads all connections, in the order of their ids.
    ///
    /// # Errors
    /// The error of the store, or of a record in it.
    fn connections(&self) -> Result<Vec<Stored>, ManagerdError>;

    /// Writes changes in their order. They last when this returns.
    ///
    /// # Errors
    /// The error of the store. Then the manager's memory is ahead of its store: it must end, or begin anew from the store.
    fn write(&mut self, changes: &[Change]) -> Result<(), ManagerdError>;

    /// Checks that this process still is the one that may answer. What was decided before this returns may be sent at any
    /// later moment.
    ///
    /// # Errors
    /// [`ManagerdError::NoLongerLeads`]: nothing may be answered.
    fn leads(&self) -> Result<(), ManagerdError> {
        Ok(())
    }

    /// Ties a new store to a plan and its budgets, or checks that it is theirs. Returns the budgets in force.
    ///
    /// `budgets` is called for a new store, and where `stated` is true: then they must be those of the store.
    ///
    /// # Errors
    /// [`ManagerdError::OtherPlan`], [`ManagerdError::OtherBudgets`], those of `budgets` and of the store.
    fn of_plan(
        &mut self,
        plan_id: &str,
        stated: bool,
        budgets: &dyn Fn() -> Result<Budgets, ManagerdError>,
    ) -> Result<Budgets, ManagerdError> {
        let (Some(stored), Some(bytes)) = (self.value(PLAN_ID)?, self.value(BUDGETS)?) else {
            let budgets = budgets()?;
            let bytes = budgets_to_bytes(&budgets);
            self.set(&[(PLAN_ID, plan_id.as_bytes()), (BUDGETS, &bytes)])?;
            return Ok(budgets);
        };
        if stored != plan_id.as_bytes() {
            return Err(ManagerdError::OtherPlan {
                path: self.place().to_owned(),
                stored: String::from_utf8_lossy(&stored).into_owned(),
                given: plan_id.to_owned(),
            });
        }
        let kept = budgets_from_bytes(&bytes).map_err(|error| faulty(self.place(), error))?;
        if stated && budgets()? != kept {
            return Err(ManagerdError::OtherBudgets {
                path: self.place().to_owned(),
            });
        }
        Ok(kept)
    }

    /// Returns the longest lifetime of one-shot reservations that was ever used with this store, microseconds, after
    /// `present_us` has been noted. The note lasts when this returns.
    ///
    /// # Errors
    /// The error of the store.
    fn longest_lifetime_us(&mut self, present_us: u32) -> Result<u32, ManagerdError> {
        let stored = self.value(LONGEST_LIFETIME)?;
        let stored = stored.and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
        let longest = stored.map_or(0, u32::from_be_bytes).max(present_us);
        self.set(&[(LONGEST_LIFETIME, &longest.to_be_bytes())])?;
        Ok(longest)
    }

    /// Returns what was written. The lifetime is that of [`Store::longest_lifetime_us`], and 0 here.
    ///
    /// # Errors
    /// The error of the store, or of a record in it.
    fn restored(&self) -> Result<Restored, ManagerdError> {
        let number = |name: &str| -> Result<u64, ManagerdError> {
            let bytes = self.value(name)?;
            let bytes = bytes.and_then(|bytes| <[u8; 8]>::try_from(bytes).ok());
            Ok(bytes.map_or(0, u64::from_be_bytes))
        };
        Ok(Restored {
            connections: self.connections()?,
            last_connection: number(LAST_CONNECTION)?,
            epoch: number(EPOCH)?,
            longest_lifetime_us: 0,
        })
    }
}

/// Returns the error of a record that cannot be read.
pub(crate) fn faulty(place: &Path, error: CodecError) -> ManagerdError {
    ManagerdError::Record {
        path: place.to_owned(),
        error,
    }
}

/// Returns the single values that changes bring with them: the last id and the newest epoch.
pub(crate) fn newest(changes: &[Change]) -> Vec<(&'static str, [u8; 8])> {
    let (mut last, mut newest) = (None, None);
    for change in changes {
        match change {
            Change::Admitted(stored) => {
                last = Some(stored.granted.connection);
                newest = Some(stored.granted.epoch);
            }
            Change::Released { epoch, .. } => newest = Some(*epoch),
        }
    }
    let named = [(LAST_CONNECTION, last), (EPOCH, newest)];
    let stated = named.into_iter();
    stated
        .filter_map(|(name, value)| Some((name, value?.to_be_bytes())))
        .collect()
}
