//! The parts of both stations: the thread's settings, names, files; and the values and headers of a publisher.

use crate::StationError;
use crate::project::{FieldSource, RealTime, Transport};
use rtwire_link::SenderConfig;
use rtwire_pubsub::{FieldValue, Scalar, ScalarArray, Values};
use rtwire_sys::stamps::TxStamping;
use rtwire_sys::{memory, sched};
use rtwire_wire::ethernet::Header;
use rtwire_wire::{EtherType, MacAddress};
use std::path::{Path, PathBuf};

/// Returns the Ethernet header of a group's frames; nothing for datagrams.
pub(crate) fn prefix(transport: &Transport, source: MacAddress) -> Vec<u8> {
    let Transport::Ethernet { address, vlan } = *transport else {
        return Vec::new();
    };
    let mut prefix = [0; 18];
    let header = Header {
        destination: address,
        source,
        vlan,
        ether_type: EtherType::UADP,
    };
    let bytes = header.emit(&mut prefix).unwrap_or(0);
    prefix[..bytes].to_vec()
}

/// Sets a field to the value that its source has in a cycle. No allocation.
pub(crate) fn generate(
    values: &mut Values,
    field: usize,
    source: &FieldSource,
    cycle: u64,
    now_ns: u64,
) {
    let up = cycle as i64;
    let number = match source {
        FieldSource::Program | FieldSource::Question(_) => return,
        FieldSource::Text(text) => {
            values.set(field, FieldValue::Text(text));
            return;
        }
        FieldSource::Bytes(bytes) => {
            values.set(field, FieldValue::Bytes(bytes));
            return;
        }
        FieldSource::Elements(octets) => {
            let kind = match values.get(field) {
                Some(FieldValue::Array(array)) => array.kind(),
                _ => return,
            };
            if let Some(array) = ScalarArray::of_octets(kind, octets) {
                values.set(field, FieldValue::Array(array));
            }
            return;
        }
        FieldSource::Constant(value) => {
            values.set_scalar(field, *value);
            return;
        }
        FieldSource::Counter if values.set_each(field, |at| up.wrapping_add(at as i64)) => return,
        FieldSource::NegativeCounter
            if values.set_each(field, |at| up.wrapping_add(at as i64).wrapping_neg()) =>
        {
            return;
        }
        FieldSource::Counter => up,
        FieldSource::NegativeCounter => up.wrapping_neg(),
        FieldSource::Time => now_ns as i64,
        FieldSource::Sine => {
            let turn = (cycle % 256) as f64 / 256.0 * core::f64::consts::TAU;
            if let Some(old) = values.words().get(field) {
                let value = Scalar::of_float(old.kind(), 100.0 * turn.sin());
                values.set_scalar(field, value);
            }
            return;
        }
    };
    if let Some(old) = values.words().get(field) {
        let value = Scalar::of_number(old.kind(), number);
        values.set_scalar(field, value);
    }
}

pub(crate) fn stamping(config: &SenderConfig) -> Option<TxStamping> {
    (config.path == rtwire_link::TxPath::Qdisc).then_some(TxStamping {
        queue: false,
        driver: true,
        card: false,
    })
}

/// Makes the calling thread real-time as the project says, with the memory of the process locked.
pub(crate) fn become_real_time(settings: &RealTime) -> Result<(), StationError> {
    if let Some(cpu) = settings.cpu {
        sched::set_cpu(cpu)?;
    }
    if let Some(priority) = settings.priority {
        memory::lock_all()?;
        sched::set_fifo(priority)?;
        memory::touch_stack();
    }
    Ok(())
}

/// Returns the file of a data set's values.
pub(crate) fn image_path(folder: &Path, group: &str, data_set: &str) -> PathBuf {
    let clean = |name: &str| name.replace(['/', ' '], "-");
    folder.join(format!("{}.{}.image", clean(group), clean(data_set)))
}

/// Finds a name among others.
pub(crate) fn find<'n>(
    what: &'static str,
    name: &str,
    mut names: impl Iterator<Item = &'n str> + Clone,
) -> Result<usize, StationError> {
    let all = names.clone();
    names
        .position(|other| other == name)
        .ok_or_else(|| StationError::NoSuch {
            what,
            name: name.to_owned(),
            there: all.collect::<Vec<_>>().join(", "),
        })
}
