//! The store: connections that outlive the manager. What [`Store::write`] has returned for survives a crash.

use std::fs;
use std::path::{Path, PathBuf};

use redb::{Database, DatabaseError, Durability, ReadableTable as _, TableDefinition};
use rtwire_manager::{Change, Restored, Stored, budgets_from_bytes, budgets_to_bytes};
use rtwire_plan::admission::Budgets;

use crate::ManagerdError;

/// Single values by name.
const VALUES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("values");
/// Connections by their ids.
const CONNECTIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("connections");
/// The file in the state's folder.
const FILE: &str = "manager.redb";

/// The store of one manager.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    path: PathBuf,
    database: Database,
}

impl Store {
    /// Opens the store in a folder, and makes both if they are missing. Only one process can.
    ///
    /// # Errors
    /// [`ManagerdError::InUse`], or the error of the file.
    pub fn open(folder: &Path) -> Result<Store, ManagerdError> {
        fs::create_dir_all(folder).map_err(ManagerdError::file("make", folder))?;
        let path = folder.join(FILE);
        let database = Database::create(&path).map_err(|error| match error {
            DatabaseError::DatabaseAlreadyOpen => ManagerdError::InUse {
                path: folder.to_owned(),
            },
            other => ManagerdError::Store {
                path: path.clone(),
                error: Box::new(other.into()),
            },
        })?;
        Ok(Store {
            folder: folder.to_owned(),
            path,
            database,
        })
    }

    fn failed(&self, error: impl Into<redb::Error>) -> ManagerdError {
        ManagerdError::Store {
            path: self.path.clone(),
            error: Box::new(error.into()),
        }
    }

    /// Ties a new store to a plan and its budgets, or checks that it is theirs. Returns the budgets in force.
    ///
    /// `budgets` is called for a new store, and where `stated` is true: then they must be those of the store.
    ///
    /// # Errors
    /// [`ManagerdError::OtherPlan`], [`ManagerdError::OtherBudgets`], those of `budgets` and of the file.
    pub fn of_plan(
        &self,
        plan_id: &str,
        stated: bool,
        budgets: impl FnOnce() -> Result<Budgets, ManagerdError>,
    ) -> Result<Budgets, ManagerdError> {
        let begun = self.database.begin_write();
        let mut transaction = begun.map_err(|error| self.failed(error))?;
        transaction.set_durability(Durability::Immediate);
        let result = {
            let opened = transaction.open_table(VALUES);
            let mut values = opened.map_err(|error| self.failed(error))?;
            let read = |name: &str| -> Result<Option<Vec<u8>>, ManagerdError> {
                let value = values.get(name).map_err(|error| self.failed(error))?;
                Ok(value.map(|value| value.value().to_vec()))
            };
            match (read("plan_id")?, read("budgets")?) {
                (Some(stored), Some(bytes)) => {
                    if stored != plan_id.as_bytes() {
                        return Err(ManagerdError::OtherPlan {
                            path: self.folder.clone(),
                            stored: String::from_utf8_lossy(&stored).into_owned(),
                            given: plan_id.to_owned(),
                        });
                    }
                    let kept = budgets_from_bytes(&bytes).map_err(|error| self.record(error))?;
                    if stated && budgets()? != kept {
                        return Err(ManagerdError::OtherBudgets {
                            path: self.folder.clone(),
                        });
                    }
                    kept
                }
                _ => {
                    let budgets = budgets()?;
                    let bytes = budgets_to_bytes(&budgets);
                    for (name, value) in [
                        ("plan_id", plan_id.as_bytes()),
                        ("budgets", bytes.as_slice()),
                    ] {
                        let written = values.insert(name, value);
                        written.map_err(|error| self.failed(error))?;
                    }
                    budgets
                }
            }
        };
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(result)
    }

    /// Returns the longest lifetime of one-shot reservations that was ever used with this store, microseconds, after
    /// `present_us` has been noted. It is on the disk when this returns.
    ///
    /// # Errors
    /// The error of the file.
    pub fn longest_lifetime_us(&self, present_us: u32) -> Result<u32, ManagerdError> {
        const NAME: &str = "longest_lifetime_us";
        let begun = self.database.begin_write();
        let mut transaction = begun.map_err(|error| self.failed(error))?;
        transaction.set_durability(Durability::Immediate);
        let longest = {
            let opened = transaction.open_table(VALUES);
            let mut values = opened.map_err(|error| self.failed(error))?;
            let stored = {
                let value = values.get(NAME).map_err(|error| self.failed(error))?;
                let bytes = value.and_then(|value| <[u8; 4]>::try_from(value.value()).ok());
                bytes.map_or(0, u32::from_be_bytes)
            };
            let longest = stored.max(present_us);
            let written = values.insert(NAME, longest.to_be_bytes().as_slice());
            written.map_err(|error| self.failed(error))?;
            longest
        };
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(longest)
    }

    fn record(&self, error: rtwire_manager::CodecError) -> ManagerdError {
        ManagerdError::Record {
            path: self.path.clone(),
            error,
        }
    }

    /// Returns what was written, in the order of the connections' ids. The lifetime is that of
    /// [`Store::longest_lifetime_us`], and 0 here.
    ///
    /// # Errors
    /// The error of the file, or of a record in it.
    pub fn restored(&self) -> Result<Restored, ManagerdError> {
        let begun = self.database.begin_write();
        let transaction = begun.map_err(|error| self.failed(error))?;
        let mut restored = Restored::default();
        {
            let opened = transaction.open_table(CONNECTIONS);
            let connections = opened.map_err(|error| self.failed(error))?;
            for entry in connections.iter().map_err(|error| self.failed(error))? {
                let (_, bytes) = entry.map_err(|error| self.failed(error))?;
                let stored = Stored::from_bytes(bytes.value());
                restored
                    .connections
                    .push(stored.map_err(|error| self.record(error))?);
            }
            let opened = transaction.open_table(VALUES);
            let values = opened.map_err(|error| self.failed(error))?;
            let number = |name: &str| -> Result<u64, ManagerdError> {
                let value = values.get(name).map_err(|error| self.failed(error))?;
                let bytes = value.and_then(|value| <[u8; 8]>::try_from(value.value()).ok());
                Ok(bytes.map_or(0, u64::from_be_bytes))
            };
            restored.last_connection = number("last_connection")?;
            restored.epoch = number("epoch")?;
        }
        // Tables that were missing are there now.
        transaction.commit().map_err(|error| self.failed(error))?;
        Ok(restored)
    }

    /// Writes changes as one: all or none, and on the disk when it returns.
    ///
    /// # Errors
    /// The error of the file. Then the manager's memory is ahead of its store: it must end.
    pub fn write(&self, changes: &[Change]) -> Result<(), ManagerdError> {
        let begun = self.database.begin_write();
        let mut transaction = begun.map_err(|error| self.failed(error))?;
        transaction.set_durability(Durability::Immediate);
        {
            let opened = transaction.open_table(CONNECTIONS);
            let mut connections = opened.map_err(|error| self.failed(error))?;
            let opened = transaction.open_table(VALUES);
            let mut values = opened.map_err(|error| self.failed(error))?;
            let (mut last, mut newest) = (None, None);
            for change in changes {
                match change {
                    Change::Admitted(stored) => {
                        let granted = &stored.granted;
                        let written =
                            connections.insert(granted.connection, stored.to_bytes().as_slice());
                        written.map_err(|error| self.failed(error))?;
                        last = Some(granted.connection);
                        newest = Some(granted.epoch);
                    }
                    Change::Released { connection, epoch } => {
                        let removed = connections.remove(*connection);
                        removed.map_err(|error| self.failed(error))?;
                        newest = Some(*epoch);
                    }
                }
            }
            for (name, value) in [("last_connection", last), ("epoch", newest)] {
                if let Some(value) = value {
                    let written = values.insert(name, value.to_be_bytes().as_slice());
                    written.map_err(|error| self.failed(error))?;
                }
            }
        }
        transaction.commit().map_err(|error| self.failed(error))
    }
}
