//! The priority code point: the one scale of urgency in all of rtwire.

use core::fmt;

/// Priority code point of IEEE 802.1Q, 0 to 7; 7 is the most urgent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Pcp(u8);

impl Pcp {
    /// The least urgent priority.
    pub const LOWEST: Self = Self(0);
    /// The most urgent priority.
    pub const HIGHEST: Self = Self(7);
    /// The number of priorities.
    pub const COUNT: usize = 8;

    /// Returns a priority of 0 to 7; `None` for a larger number.
    #[inline]
    #[must_use]
    pub const fn new(value: u8) -> Option<Self> {
        if value <= 7 { Some(Self(value)) } else { None }
    }

    /// The number, 0 to 7.
    #[inline]
    #[must_use]
    pub const fn get(self) -> u8 {
        self.0
    }

    /// The IP type-of-service octet that carries this priority: the class selector code point, `pcp << 5`.
    #[must_use]
    pub const fn type_of_service(self) -> u8 {
        self.0 << 5
    }
}

impl fmt::Display for Pcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl fmt::Debug for Pcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pcp({})", self.0)
    }
}
