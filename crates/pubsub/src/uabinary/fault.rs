//! Faults of configuration files.

/// The reason why bytes are no configuration file, or a tree cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UabinaryFault {
    /// The file ends within a field.
    #[error("{path}, offset {at}: {needed} bytes needed, {found} are left")]
    Truncated {
        /// The field.
        path: String,
        /// Its offset.
        at: usize,
        /// Bytes that it needs at least.
        needed: usize,
        /// Bytes that are left.
        found: usize,
    },
    /// A length says more than there is.
    #[error("{path}, offset {at}: the length is {told}, at most {most} is possible here")]
    Length {
        /// The field.
        path: String,
        /// Its offset.
        at: usize,
        /// The value found.
        told: i64,
        /// The largest possible value.
        most: usize,
    },
    /// A text is not UTF-8.
    #[error("{path}, offset {at}: the text is not UTF-8")]
    Text {
        /// The field.
        path: String,
        /// Its offset.
        at: usize,
    },
    /// A value is none of its type.
    #[error("{path}, offset {at}: {what}")]
    Value {
        /// The field.
        path: String,
        /// Its offset.
        at: usize,
        /// The contradiction.
        what: String,
    },
    /// The file holds something else.
    #[error("{path}, offset {at}: this is no {wanted}, but {found}")]
    Other {
        /// The field.
        path: String,
        /// Its offset.
        at: usize,
        /// The expected.
        wanted: &'static str,
        /// The found.
        found: String,
    },
    /// Bytes follow that belong to nothing.
    #[error("{path}, offset {at}: {octets} bytes behind the end of it")]
    Trailing {
        /// The field that has ended.
        path: String,
        /// The offset of the first of them.
        at: usize,
        /// Their number.
        octets: usize,
    },
    /// The file is too large.
    #[error("the file has {found} {what}; at most {most} are read")]
    TooMuch {
        /// Bytes or values.
        what: &'static str,
        /// The number found.
        found: usize,
        /// The most.
        most: usize,
    },
    /// A value of a tree has not the type of its field, or is too long to be written.
    #[error("{path} cannot be written: its value is not of the field's type")]
    Unfit {
        /// The field.
        path: String,
    },
}
