//! Classes of HTB one by one, while traffic passes: set, removed, counted.

use super::Netlink;
use super::attributes::{Writer, find, find_path, i32_at, number, u32_at, u64_at};
use super::raw::RawRequest;
use super::tree::{HEADER, Queue, header};
use crate::HostError;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTCLASS: u16 = 40;
const RTM_DELTCLASS: u16 = 41;
const RTM_GETTCLASS: u16 = 42;
const NLM_F_CREATE: u16 = 0x400;
/// The bytes of `struct ifinfomsg`.
const LINK_HEADER: usize = 16;
const IFLA_GSO_MAX_SEGS: u16 = 40;
const IFLA_GRO_MAX_SIZE: u16 = 58;

/// The counts of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassCounts {
    /// The class, `MAJOR << 16 | MINOR`.
    pub class: u32,
    /// Bytes sent: header and payload.
    pub sent_bytes: u64,
    /// Frames sent.
    pub sent_frames: u64,
    /// Bytes that wait.
    pub waiting_bytes: u32,
    /// Frames that wait.
    pub waiting_frames: u32,
    /// Frames dropped since the class was made.
    pub dropped: u32,
}

impl Netlink {
    /// Makes a class, or changes it. Frames that wait in it stay.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn put_class(&mut self, index: u32, class: &Queue) -> Result<(), HostError> {
        self.put(index, class, RTM_NEWTCLASS)
    }

    /// Makes a discipline without a size table in a class, or changes it. Frames that wait in it stay.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn put_queue(&mut self, index: u32, queue: &Queue) -> Result<(), HostError> {
        self.put(index, queue, RTM_NEWQDISC)
    }

    fn put(&mut self, index: u32, queue: &Queue, message: u16) -> Result<(), HostError> {
        let kind = queue.discipline.kind();
        let body = Writer::behind(&header(index, queue.handle, queue.parent, 0))
            .text(1, kind)
            .bytes(2, &queue.discipline.encode())
            .finish();
        let request = RawRequest::route(message, NLM_F_CREATE, body);
        self.acknowledge(&request, || {
            let (major, minor) = (queue.handle >> 16, queue.handle & 0xffff);
            format!("set {kind} {major:x}:{minor:x} of interface {index}")
        })
    }

    /// Removes a class with the frames that wait in it. It need not be there.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn remove_class(&mut self, index: u32, class: u32) -> Result<(), HostError> {
        const NOT_THERE: i32 = 2;
        let body = header(index, class, 0, 0).to_vec();
        let gone = self.acknowledge(&RawRequest::route(RTM_DELTCLASS, 0, body), || {
            format!(
                "remove class {:x}:{:x} of interface {index}",
                class >> 16,
                class & 0xffff
            )
        });
        match gone {
            Err(HostError::Netlink {
                errno: NOT_THERE, ..
            }) => Ok(()),
            other => other,
        }
    }

    /// Returns the counts of all classes of an interface, in the kernel's order.
    ///
    /// # Errors
    /// The kernel refuses to tell.
    pub fn class_counts(&mut self, index: u32) -> Result<Vec<ClassCounts>, HostError> {
        const STATS2: u16 = 7;
        const BASIC: u16 = 1;
        const QUEUE: u16 = 3;
        let request = RawRequest::route(RTM_GETTCLASS, 0, header(index, 0, 0, 0).to_vec()).dump();
        let replies = self.ask(&request, || {
            format!("count the classes of interface {index}")
        })?;
        let of_this = replies
            .iter()
            .filter(|reply| i32_at(reply, 4) == i32::try_from(index).ok());
        let counts = of_this.filter_map(|reply| {
            let attributes = reply.get(HEADER..)?;
            let basic = find_path(attributes, &[STATS2, BASIC])?;
            let queue = find_path(attributes, &[STATS2, QUEUE])?;
            Some(ClassCounts {
                class: u32_at(reply, 8)?,
                sent_bytes: u64_at(basic, 0)?,
                sent_frames: u32_at(basic, 8)?.into(),
                waiting_frames: u32_at(queue, 0)?,
                waiting_bytes: u32_at(queue, 4)?,
                dropped: u32_at(queue, 8)?,
            })
        });
        Ok(counts.collect())
    }

    /// Returns the number of frames that the kernel may hand to the interface's queue as one (generic segmentation).
    ///
    /// # Errors
    /// There is no such interface.
    pub fn segments(&mut self, index: u32) -> Result<u32, HostError> {
        let what = || format!("read the segmentation of interface {index}");
        let request = RawRequest::route(RTM_GETLINK, 0, link_header(index).to_vec());
        let replies = self.ask(&request, what)?;
        let segments = replies.iter().find_map(|reply| {
            let value = find(reply.get(LINK_HEADER..)?, IFLA_GSO_MAX_SEGS)?;
            u32::try_from(number(value)?).ok()
        });
        segments.ok_or_else(|| HostError::Netlink {
            what: what(),
            reason: "the kernel does not tell".to_owned(),
            errno: 0,
        })
    }

    /// Sets the number of frames that the kernel may hand to the interface's queue as one. With 1, a queue's burst is what
    /// leaves.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_segments(&mut self, index: u32, segments: u32) -> Result<(), HostError> {
        let body = Writer::behind(&link_header(index))
            .u32(IFLA_GSO_MAX_SEGS, segments)
            .finish();
        self.acknowledge(&RawRequest::route(RTM_NEWLINK, 0, body), || {
            format!("set the segmentation of interface {index}")
        })
    }
}

/// Returns the request that lets an interface merge no frames that it receives. Kernels before 5.19 ignore it.
pub(super) fn merge_nothing(index: u32) -> RawRequest {
    let body = Writer::behind(&link_header(index))
        .u32(IFLA_GRO_MAX_SIZE, 1)
        .finish();
    RawRequest::route(RTM_NEWLINK, 0, body)
}

fn link_header(index: u32) -> [u8; LINK_HEADER] {
    let mut header = [0; LINK_HEADER];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header
}
