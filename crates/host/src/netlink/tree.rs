//! All queueing disciplines of an interface at once: read, and replaced.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Netlink;
use super::attributes::{Writer, find, i32_at, text, u32_at};
use super::discipline::Discipline;
use super::raw::RawRequest;
use super::told::{settings, told};
use crate::HostError;

const RTM_NEWQDISC: u16 = 36;
const RTM_DELQDISC: u16 = 37;
const RTM_NEWTCLASS: u16 = 40;
const RTM_GETTCLASS: u16 = 42;
const RTM_NEWTFILTER: u16 = 44;
const RTM_GETTFILTER: u16 = 46;
const NLM_F_REPLACE_CREATE: u16 = 0x500;
const NLM_F_EXCL_CREATE: u16 = 0x600;
pub(super) const HEADER: usize = 20;
const ROOT: u32 = u32::MAX;
const INGRESS: u32 = 0xffff_fff1;
const STAB: u16 = 8;
const SIZE_SPECIFICATION: usize = 24;

/// A discipline or class in its place.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Queue {
    /// Its handle, `MAJOR << 16 | MINOR`.
    pub handle: u32,
    /// The handle of its parent.
    pub parent: u32,
    /// True if it is a class rather than a discipline.
    pub class: bool,
    /// Its kind and parameters.
    pub discipline: Discipline,
    /// The bytes that it adds to each frame beyond header and payload: a size table without entries.
    #[serde(default)]
    pub overhead_bytes: u16,
    /// The kernel's description, hexadecimal: the discipline is put back from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<String>,
}

impl PartialEq for Queue {
    fn eq(&self, other: &Self) -> bool {
        let foreign = matches!(self.discipline, Discipline::Foreign { .. });
        (self.handle, self.parent, self.class) == (other.handle, other.parent, other.class)
            && self.discipline == other.discipline
            && self.overhead_bytes == other.overhead_bytes
            && (!foreign || self.settings() == other.settings())
    }
}

impl Eq for Queue {}

impl Queue {
    /// Returns the number in an attribute of the kernel's description.
    pub(crate) fn option(&self, kind: u16) -> Option<u64> {
        let raw = from_hex(self.raw.as_ref()?)?;
        find(&raw, kind).and_then(super::attributes::number)
    }

    /// Returns the kernel's description without what changes by itself.
    fn settings(&self) -> Option<Vec<u8>> {
        let raw = from_hex(self.raw.as_ref()?)?;
        Some(settings(self.discipline.kind(), &raw))
    }
}

/// A filter that assigns frames to a class: all masked words of the frame behind its Ethernet header must match.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Filter {
    /// Its priority, 1 to 65535; lower ones match first.
    pub priority: u16,
    /// The EtherType.
    pub protocol: u16,
    /// Mask, value, offset in bytes behind the Ethernet header.
    pub words: Vec<(u32, u32, i32)>,
    /// The class.
    pub class: u32,
}

/// The queueing disciplines of an interface; empty for the kernel's own choice.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Tree {
    /// The root first, then each after its parent.
    pub queues: Vec<Queue>,
    /// The filters at the root.
    pub filters: Vec<Filter>,
    /// Parts beyond that, which could not be put back: then the tree must not be replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strange: Option<String>,
}

impl Tree {
    /// Returns the disciplines in the order in which they are set. Software TAPRIO comes again behind its children: for
    /// each child the kernel stops the interface's queues, and with them the timer of the gates, which only a new list
    /// starts again.
    pub(crate) fn steps(&self) -> impl Iterator<Item = &Queue> {
        let root = self.queues.first().filter(|root| {
            self.queues.len() > 1 && matches!(root.discipline, Discipline::Taprio { flags: 0, .. })
        });
        self.queues.iter().chain(root)
    }
}

pub(super) fn header(index: u32, handle: u32, parent: u32, info: u32) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&handle.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    header[16..20].copy_from_slice(&info.to_ne_bytes());
    header
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok())
        .collect()
}

impl Netlink {
    /// Returns the queueing disciplines of an interface.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn tree(&mut self, index: u32) -> Result<Tree, HostError> {
        let qdiscs = self.qdiscs(index)?;
        let Some(root) = qdiscs
            .iter()
            .find(|qdisc| qdisc.parent == ROOT)
            .filter(|root| root.handle != 0)
        else {
            return Ok(Tree::default());
        };
        let queue = |qdisc: &super::Qdisc| Queue {
            handle: qdisc.handle,
            parent: qdisc.parent,
            class: false,
            discipline: Discipline::decode(&qdisc.kind, false, &qdisc.options),
            overhead_bytes: qdisc.overhead_bytes.unwrap_or(0),
            raw: Some(to_hex(&qdisc.options)),
        };
        let mut tree = Tree {
            queues: vec![queue(root)],
            ..Tree::default()
        };
        if root.kind == "htb" {
            tree.queues.extend(self.htb_classes(index)?);
        }
        // Those without a handle are the kernel's own choice and appear by themselves.
        let others = qdiscs
            .iter()
            .filter(|one| one.handle != 0 && one.parent != ROOT && one.parent != INGRESS);
        let mut others: Vec<Queue> = others.map(queue).collect();
        others.sort_by_key(|queue| (queue.parent, queue.handle));
        tree.queues.extend(others);
        let (filters, strange) = self.filters(index, root.handle)?;
        tree.filters = filters;
        const KNOWN: [&str; 16] = [
            "htb",
            "mq",
            "mqprio",
            "taprio",
            "etf",
            "cbs",
            "tbf",
            "pfifo",
            "bfifo",
            "pfifo_fast",
            "fq",
            "fq_codel",
            "sfq",
            "prio",
            "netem",
            "noqueue",
        ];
        tree.strange = strange.or_else(|| {
            let odd = qdiscs
                .iter()
                .find(|one| !KNOWN.contains(&one.kind.as_str()) && one.parent != INGRESS);
            odd.map(|one| format!("a discipline of kind {}", one.kind))
        });
        let tables = qdiscs.iter().any(|one| one.overhead_bytes.is_none());
        tree.strange = tree
            .strange
            .or_else(|| tables.then(|| "a discipline with a size table".to_owned()));
        Ok(tree)
    }

    fn htb_classes(&mut self, index: u32) -> Result<Vec<Queue>, HostError> {
        let request = RawRequest::route(RTM_GETTCLASS, 0, header(index, 0, 0, 0).to_vec()).dump();
        let replies = self.ask(&request, || {
            format!("read the classes of interface {index}")
        })?;
        let mut found: Vec<Queue> = replies
            .iter()
            .filter(|reply| i32_at(reply, 4) == i32::try_from(index).ok())
            .filter_map(|reply| {
                let attributes = reply.get(HEADER..)?;
                let options = find(attributes, 2).unwrap_or_default();
                let kind = find(attributes, 1).map(text)?;
                (kind == "htb").then_some(())?;
                Some(Queue {
                    handle: u32_at(reply, 8)?,
                    parent: u32_at(reply, 12)?,
                    class: true,
                    discipline: Discipline::decode(&kind, true, options),
                    overhead_bytes: 0,
                    raw: Some(to_hex(options)),
                })
            })
            .collect();
        // A class's parent has a smaller number here; the first parent is the root.
        found.sort_by_key(|queue| (queue.parent != ROOT, queue.parent, queue.handle));
        Ok(found)
    }

    /// Returns the filters of a discipline, and other parts.
    fn filters(
        &mut self,
        index: u32,
        handle: u32,
    ) -> Result<(Vec<Filter>, Option<String>), HostError> {
        let body = header(index, 0, handle, 0).to_vec();
        let request = RawRequest::route(RTM_GETTFILTER, 0, body).dump();
        let replies = self.ask(&request, || {
            format!("read the filters of interface {index}")
        })?;
        let mut found = Vec::new();
        for reply in replies {
            let info = u32_at(&reply, 16).unwrap_or(0);
            let attributes = reply.get(HEADER..).unwrap_or_default();
            let kind = find(attributes, 1).map(text).unwrap_or_default();
            let options = find(attributes, 2).unwrap_or_default();
            if kind != "u32" {
                return Ok((Vec::new(), Some(format!("filters of kind {kind}"))));
            }
            // Besides the filters there are hash tables, which have no selector.
            let Some(selector) = find(options, 5) else {
                continue;
            };
            let Some(filter) = rule(info, options, selector) else {
                return Ok((Vec::new(), Some("filters that cannot be read".to_owned())));
            };
            found.push(filter);
        }
        found.sort();
        Ok((found, None))
    }

    /// Replaces the disciplines of an interface.
    ///
    /// # Errors
    /// The kernel refuses one, in its own words.
    pub fn set_tree(&mut self, index: u32, tree: &Tree) -> Result<(), HostError> {
        let what = || format!("remove the queues of interface {index}");
        let body = header(index, 0, ROOT, 0).to_vec();
        let gone = self.acknowledge(&RawRequest::route(RTM_DELQDISC, 0, body), what);
        match gone {
            // Only the kernel's own choice is there, which cannot and need not be removed.
            Err(HostError::Netlink {
                errno: 2 | 22 | 95, ..
            })
            | Ok(()) => {}
            Err(error) => return Err(error),
        }
        for queue in tree.steps() {
            let kind = queue.discipline.kind();
            let options = match &queue.raw {
                Some(raw) if queue.class => from_hex(raw).unwrap_or_default(),
                Some(raw) => told(kind, from_hex(raw).unwrap_or_default()),
                None => queue.discipline.encode(),
            };
            let body = Writer::behind(&header(index, queue.handle, queue.parent, 0))
                .text(1, kind)
                .bytes(2, &options);
            let body = match queue.overhead_bytes {
                0 => body.finish(),
                overhead => body.nested(STAB, size_table(overhead)).finish(),
            };
            let (message, flags) = if queue.class {
                (RTM_NEWTCLASS, NLM_F_EXCL_CREATE)
            } else {
                (RTM_NEWQDISC, NLM_F_REPLACE_CREATE)
            };
            self.acknowledge(&RawRequest::route(message, flags, body), || {
                format!("set the queue {} of interface {index}", kind)
            })?;
        }
        let Some(root) = tree.queues.first() else {
            return Ok(());
        };
        for filter in &tree.filters {
            let info = u32::from(filter.priority) << 16 | u32::from(filter.protocol.to_be());
            let body = Writer::behind(&header(index, 0, root.handle, info))
                .text(1, "u32")
                .bytes(2, &selector(filter))
                .finish();
            let request = RawRequest::route(RTM_NEWTFILTER, NLM_F_EXCL_CREATE, body);
            self.acknowledge(&request, || {
                format!(
                    "set a filter for EtherType {:#06x} of interface {index}",
                    filter.protocol
                )
            })?;
        }
        Ok(())
    }
}

/// `struct tc_sizespec` without a table: logarithms, alignment, overhead, link layer, and four sizes.
fn size_table(overhead_bytes: u16) -> Writer {
    const LINKLAYER_ETHERNET: u32 = 1;
    let mut bytes = [0; SIZE_SPECIFICATION];
    bytes[4..8].copy_from_slice(&i32::from(overhead_bytes).to_ne_bytes());
    bytes[8..12].copy_from_slice(&LINKLAYER_ETHERNET.to_ne_bytes());
    Writer::default().bytes(1, &bytes)
}

/// Returns the overhead in a discipline's attributes: 0 without a size table, `None` if the table contains more.
pub(super) fn overhead_bytes(attributes: &[u8]) -> Option<u16> {
    let Some(table) = find(attributes, STAB) else {
        return Some(0);
    };
    let specification = find(table, 1)?;
    let sizes = specification.get(12..SIZE_SPECIFICATION)?;
    let plain = specification.get(..4)? == [0; 4] && sizes.iter().all(|octet| *octet == 0);
    let overhead = i32_at(specification, 4).filter(|_| plain)?;
    u16::try_from(overhead).ok()
}

const TERMINAL: u8 = 1;
/// The size of `struct tc_u32_sel` without its keys, of 16 bytes each.
const SELECTOR: usize = 16;

fn selector(filter: &Filter) -> Vec<u8> {
    let mut bytes = vec![
        TERMINAL,
        0,
        u8::try_from(filter.words.len()).unwrap_or(0),
        0,
    ];
    bytes.resize(SELECTOR, 0);
    for (mask, value, offset) in &filter.words {
        bytes.extend_from_slice(&mask.to_be_bytes());
        bytes.extend_from_slice(&value.to_be_bytes());
        bytes.extend_from_slice(&offset.to_ne_bytes());
        bytes.extend_from_slice(&[0; 4]);
    }
    Writer::default()
        .u32(1, filter.class)
        .bytes(5, &bytes)
        .finish()
}

fn rule(info: u32, options: &[u8], selector: &[u8]) -> Option<Filter> {
    let keys = usize::from(*selector.get(2)?);
    let big = |at: usize| Some(u32::from_be(u32_at(selector, at)?));
    let words = (0..keys)
        .map(|key| {
            let at = SELECTOR + 16 * key;
            Some((big(at)?, big(at + 4)?, i32_at(selector, at + 8)?))
        })
        .collect::<Option<Vec<_>>>()?;
    Some(Filter {
        priority: u16::try_from(info >> 16).ok()?,
        protocol: u16::from_be(u16::try_from(info & 0xffff).ok()?),
        words,
        class: u32_at(find(options, 1)?, 0)?,
    })
}
