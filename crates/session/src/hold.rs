//! Ends of streams that are open: each at most once in a session.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

/// One end of a stream that is open.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Taken {
    pub(crate) end: &'static str,
    pub(crate) index: usize,
}

/// Frees an end of a stream when dropped.
#[derive(Debug)]
pub(crate) struct Hold {
    pub(crate) taken: Taken,
    pub(crate) all: Arc<Mutex<BTreeSet<Taken>>>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.taken);
    }
}
