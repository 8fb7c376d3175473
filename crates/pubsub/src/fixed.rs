//! The layout of a group's messages in the fixed profile: the same table at both ends.

use crate::config::{Group, Profile};
use rtwire_wire::uadp::{
    DataSetMessage, FixedDataSet, FixedLayout, GroupHeader, Header, RawField, SecurityHeader,
    WriterIds,
};

/// Returns the header of a group's messages. What security puts there is written when a message is sealed.
pub(crate) fn header<'a>(group: &'a Group, sequence: u16, writers: &'a [u16]) -> Header<'a> {
    const NONCE: [u8; 8] = [0; 8];
    let fixed = group.profile == Profile::Fixed;
    Header {
        publisher_id: Some(group.publisher.id()),
        group: fixed.then_some(GroupHeader {
            writer_group_id: Some(group.id),
            group_version: Some(group.version),
            message_number: Some(1),
            sequence: Some(sequence),
        }),
        writers: (!fixed).then_some(WriterIds::of(writers)),
        security: group.security.is_secured().then_some(SecurityHeader {
            signed: true,
            nonce: &NONCE,
            ..SecurityHeader::default()
        }),
        ..Header::default()
    }
}

/// Returns the layout of a group's messages; `None` for the dynamic profile, and where they have more fields than a layout has
/// room for. It is large, so it has a place of its own.
#[must_use]
pub fn layout(group: &Group) -> Option<Box<FixedLayout>> {
    let set = group.data_sets.first()?;
    if group.profile != Profile::Fixed {
        return None;
    }
    let mut lengths = vec![[0]; set.fields.len()];
    let fields = set.fields.iter().zip(&mut lengths);
    let fields = fields.map(|(field, length)| field.extent.raw(field.kind, length));
    let fields: Vec<RawField<'_>> = fields.collect();
    let data_set = FixedDataSet {
        header: DataSetMessage {
            sequence: Some(0),
            status: Some(0),
            ..DataSetMessage::default()
        },
        encoding: set.encoding,
        fields: &fields,
        configured_octets: 0,
    };
    let layout = FixedLayout::new(&header(group, 0, &[]), &[data_set]);
    layout.ok().map(Box::new)
}
