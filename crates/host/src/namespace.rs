//! A named network namespace.

use std::fs;
use std::thread;

use rtwire_sys::netns;

use crate::HostError;

/// A network namespace by name, as `ip netns` shows it. Dropping the value leaves it in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes a new namespace, with IPv6 off for every future interface (a deterministic network has no stray traffic).
    ///
    /// # Errors
    /// The name is taken, or CAP_SYS_ADMIN is missing.
    pub fn create(name: &str) -> Result<Self, HostError> {
        Self::made(netns::create(name), name, name)
    }

    /// Makes a new namespace that outlives this program, wherever it was started; see [`Namespace::lasting`].
    ///
    /// # Errors
    /// The name is taken, or CAP_SYS_ADMIN is missing.
    pub fn create_lasting(name: &str) -> Result<Self, HostError> {
        Self::made(netns::create_lasting(name), name, &netns::lasting(name))
    }

    fn made(result: std::io::Result<()>, name: &str, path: &str) -> Result<Self, HostError> {
        result.map_err(|source| HostError::Namespace {
            what: format!("create network namespace `{name}`"),
            source,
        })?;
        let namespace = Self::existing(path);
        for scope in ["all", "default"] {
            namespace.set(&format!("net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
        }
        Ok(namespace)
    }

    /// Returns a namespace that [`Namespace::create_lasting`] made; `None` if there is none of this name.
    #[must_use]
    pub fn lasting(name: &str) -> Option<Self> {
        let path = netns::lasting(name);
        netns::path(&path).exists().then(|| Self::existing(&path))
    }

    /// Returns an existing namespace by its name.
    #[must_use]
    pub fn existing(name: &str) -> Self {
        Self {
            name: name.to_owned(),
        }
    }

    /// Returns whether a namespace exists behind the name. Its maker may have been killed in between.
    #[must_use]
    pub fn is_made(&self) -> bool {
        netns::is_namespace(&self.name)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs `work` on a thread inside the namespace and waits for it.
    ///
    /// # Errors
    /// The namespace cannot be entered, or `work` panicked.
    pub fn run<R: Send>(&self, work: impl FnOnce() -> R + Send) -> Result<R, HostError> {
        thread::scope(|scope| {
            scope
                .spawn(|| {
                    netns::enter(&self.name).map_err(|source| HostError::Namespace {
                        what: format!("enter network namespace `{}`", self.name),
                        source,
                    })?;
                    Ok(work())
                })
                .join()
                .unwrap_or_else(|_| Err(HostError::Panicked(self.name.clone())))
        })
    }

    /// Writes a kernel setting of this namespace; `key` is a path below `/proc/sys`. Ignores settings that the kernel
    /// does not have, such as those of IPv6 where it is not built in.
    ///
    /// # Errors
    /// The file exists and cannot be written.
    pub fn set(&self, key: &str, value: &str) -> Result<(), HostError> {
        let path = format!("/proc/sys/{key}");
        self.run(|| match fs::write(&path, value) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e),
            _ => Ok(()),
        })?
        .map_err(|source| HostError::Setting {
            path,
            value: value.to_owned(),
            source,
        })
    }

    /// Removes the name and, with its last process and socket, the namespace and all links in it.
    ///
    /// # Errors
    /// CAP_SYS_ADMIN is missing.
    pub fn delete(&self) -> Result<(), HostError> {
        netns::delete(&self.name).map_err(|source| HostError::Namespace {
            what: format!("delete network namespace `{}`", self.name),
            source,
        })
    }
}
