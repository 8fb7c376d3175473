//! The store as a file of this host. What [`Store::write`] has returned for survives a crash.

use std::fs;
use std::path::{Path, PathBuf};

use redb::{
    Database, DatabaseError, Durability, ReadableTable as _, TableDefinition, WriteTransaction,
};
use rtwire_manager::{Change, Stored};

use crate::ManagerdError;
use crate::store::{Store, faulty, newest};

/// Single values by name.
const VALUES: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("values");
/// Connections by their ids.
const CONNECTIONS: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("connections");
/// The file in the state's folder.
const FILE: &str = "manager.redb";

/// The store of one manager in a folder.
#[derive(Debug)]
pub struct FileStore {
    folder: PathBuf,
    path: PathBuf,
    database: Database,
}

impl FileStore {
    /// Opens the store in a folder, and makes both if they are missing. Only one process can.
    ///
    /// # Errors
    /// [`ManagerdError::InUse`], or the error of the file.
    pub fn open(folder: &Path) -> Result<FileStore, ManagerdError> {
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
        let store = FileStore {
            folder: folder.to_owned(),
            path,
            database,
        };
        // Tables that are missing are there from now on.
        let transaction = store.begin()?;
        let values = transaction.open_table(VALUES).map(drop);
        values.map_err(|error| store.failed(error))?;
        let connections = transaction.open_table(CONNECTIONS).map(drop);
        connections.map_err(|error| store.failed(error))?;
        transaction.commit().map_err(|error| store.failed(error))?;
        Ok(store)
    }

    fn failed(&self, error: impl Into<redb::Error>) -> ManagerdError {
        ManagerdError::Store {
            path: self.path.clone(),
            error: Box::new(error.into()),
        }
    }

    fn begin(&self) -> Result<WriteTransaction, ManagerdError> {
        let begun = self.database.begin_write();
        let mut transaction = begun.map_err(|error| self.failed(error))?;
        transaction.set_durability(Durability::Immediate);
        Ok(transaction)
    }

    fn put(&self, to: &WriteTransaction, values: &[(&str, &[u8])]) -> Result<(), ManagerdError> {
        let mut table = to.open_table(VALUES).map_err(|error| self.failed(error))?;
        for (name, value) in values {
            let written = table.insert(*name, *value);
            written.map_err(|error| self.failed(error))?;
        }
        Ok(())
    }
}

impl Store for FileStore {
    fn place(&self) -> &Path {
        &self.folder
    }

    fn value(&self, name: &str) -> Result<Option<Vec<u8>>, ManagerdError> {
        let begun = self.database.begin_read();
        let transaction = begun.map_err(|error| self.failed(error))?;
        let opened = transaction.open_table(VALUES);
        let values = opened.map_err(|error| self.failed(error))?;
        let value = values.get(name).map_err(|error| self.failed(error))?;
        Ok(value.map(|value| value.value().to_vec()))
    }

    fn set(&mut self, values: &[(&str, &[u8])]) -> Result<(), ManagerdError> {
        let transaction = self.begin()?;
        self.put(&transaction, values)?;
        transaction.commit().map_err(|error| self.failed(error))
    }

    fn connections(&self) -> Result<Vec<Stored>, ManagerdError> {
        let begun = self.database.begin_read();
        let transaction = begun.map_err(|error| self.failed(error))?;
        let opened = transaction.open_table(CONNECTIONS);
        let table = opened.map_err(|error| self.failed(error))?;
        let mut connections = Vec::new();
        for entry in table.iter().map_err(|error| self.failed(error))? {
            let (_, bytes) = entry.map_err(|error| self.failed(error))?;
            let stored = Stored::from_bytes(bytes.value());
            connections.push(stored.map_err(|error| faulty(&self.path, error))?);
        }
        Ok(connections)
    }

    /// Writes changes as one: all or none, and on the disk when it returns.
    fn write(&mut self, changes: &[Change]) -> Result<(), ManagerdError> {
        let transaction = self.begin()?;
        {
            let opened = transaction.open_table(CONNECTIONS);
            let mut connections = opened.map_err(|error| self.failed(error))?;
            for change in changes {
                let done = match change {
                    Change::Admitted(stored) => {
                        let bytes = stored.to_bytes();
                        connections.insert(stored.granted.connection, bytes.as_slice())
                    }
                    Change::Released { connection, .. } => connections.remove(*connection),
                };
                done.map_err(|error| self.failed(error))?;
            }
        }
        for (name, value) in newest(changes) {
            self.put(&transaction, &[(name, &value)])?;
        }
        transaction.commit().map_err(|error| self.failed(error))
    }
}
