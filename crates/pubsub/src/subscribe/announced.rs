//! Metadata that a publisher has announced: where its fields belong in the reader's own description.

use crate::config::{DataSet, Field};
use crate::extent::Extent;
use crate::values::Values;
use core::mem::discriminant;
use rtwire_wire::uadp::FieldEncoding;

/// The reason why an announced description cannot take the place of the reader's own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsuitable {
    /// Announcements carry no signature.
    #[error(
        "writer group `{group}` is secured, and announcements are not, so they may be forged; give this subscriber the new description"
    )]
    Secured {
        /// The group.
        group: String,
    },
    /// The writer is gone.
    #[error("the publisher announces no writer {writer}, which data set `{data_set}` needs")]
    NoWriter {
        /// The data set.
        data_set: String,
        /// Its writer.
        writer: u16,
    },
    /// A field is gone.
    #[error("the publisher's data set `{data_set}` has no field `{field}` any more")]
    NoField {
        /// The data set.
        data_set: String,
        /// The field.
        field: String,
    },
    /// A field has another type or length.
    #[error(
        "field `{field}` of data set `{data_set}` is {found} at the publisher, and {wanted} here"
    )]
    OtherField {
        /// The data set.
        data_set: String,
        /// The field.
        field: String,
        /// Its type at the publisher.
        found: String,
        /// Its own type.
        wanted: String,
    },
}

/// The fields that a publisher sends, where they are not those of the reader's description.
#[derive(Debug)]
pub(super) struct Sent {
    /// The place of each in the description; `None` for a field that is not described.
    own: Vec<Option<usize>>,
    /// To find the end of such a field in RawData.
    skipped: Values,
    /// The bytes of all fields as bare values, each as long as it can be.
    pub(super) raw_bytes: usize,
}

impl Sent {
    /// Finds the fields of a description among the announced ones, by their names. Returns `None` where both have the same fields in the same order.
    pub(super) fn of(own: &DataSet, announced: &DataSet) -> Result<Option<Self>, Unsuitable> {
        let raw = announced.encoding == FieldEncoding::RawData;
        let mut places = vec![None; announced.fields.len()];
        for (at, field) in own.fields.iter().enumerate() {
            let mut fields = announced.fields.iter().zip(&places);
            let there =
                fields.position(|(found, taken)| found.name == field.name && taken.is_none());
            let there = there.ok_or_else(|| Unsuitable::NoField {
                data_set: own.name.clone(),
                field: field.name.clone(),
            })?;
            if !suits(&announced.fields[there], field, raw) {
                return Err(Unsuitable::OtherField {
                    data_set: own.name.clone(),
                    field: field.name.clone(),
                    found: described(&announced.fields[there]),
                    wanted: described(field),
                });
            }
            places[there] = Some(at);
        }
        let same = places.len() == own.fields.len()
            && places
                .iter()
                .enumerate()
                .all(|(at, place)| *place == Some(at));
        Ok((!same).then(|| Self {
            own: places,
            skipped: Values::new(&announced.fields),
            raw_bytes: announced.raw_bytes(),
        }))
    }

    /// The place of each sent field in the description; `None` for one that is not described.
    pub(super) fn places(&self) -> &[Option<usize>] {
        &self.own
    }

    /// Returns the place of a sent field in the description; `None` for one that is not described.
    pub(super) fn place(&self, field: usize) -> Option<usize> {
        *self.own.get(field)?
    }

    /// Reads a sent field of RawData into its place of `values`. Returns its bytes; `None` where there are too few, or it is not valid.
    pub(super) fn take_raw(
        &mut self,
        values: &mut Values,
        field: usize,
        bytes: &[u8],
    ) -> Option<usize> {
        match self.place(field) {
            Some(own) => values.take_raw(own, bytes),
            None => self.skipped.take_raw(field, bytes),
        }
    }
}

/// Returns true where a field of the publisher can be read as one of the description. In RawData the longest value decides where the next field begins.
fn suits(found: &Field, wanted: &Field, raw: bool) -> bool {
    found.kind == wanted.kind
        && discriminant(&found.extent) == discriminant(&wanted.extent)
        && (!raw || found.extent == wanted.extent)
}

fn described(field: &Field) -> String {
    let kind = field.kind;
    match field.extent {
        Extent::Scalar => format!("{kind}"),
        Extent::Bytes(most) => format!("{kind} of at most {most} bytes"),
        Extent::Elements(most) => format!("an array of at most {most} {kind}"),
    }
}
