//! A listener is waited for with the kernel's own `epoll`, edge-triggered, as async runtimes do: each path, each way to wait.
#![allow(clippy::unwrap_used)]

mod common;
use common::*;
use rtwire_channel::{
    ChannelError, ListenerConfig, NewestListener, QueueListener, Semantics, StampPlace, WakeUp,
};
use rtwire_testkit::{NetnsPair, require};
use rustix::event::{Timespec, epoll};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::time::Duration;

enum Either {
    Queue(QueueListener),
    Newest(NewestListener),
}

impl Either {
    fn arm(&mut self) -> Result<bool, ChannelError> {
        match self {
            Self::Queue(listener) => listener.arm(),
            Self::Newest(listener) => listener.arm(),
        }
    }

    fn descriptor(&self) -> Result<BorrowedFd<'_>, ChannelError> {
        match self {
            Self::Queue(listener) => listener.descriptor(),
            Self::Newest(listener) => listener.descriptor(),
        }
    }

    /// The number of the value that is there, and the place of its stamp.
    fn take(&mut self) -> Option<(u32, StampPlace)> {
        match self {
            Self::Queue(listener) => {
                let value = listener.recv(NOW).unwrap()?;
                Some((value.sequence, value.stamp))
            }
            Self::Newest(listener) => {
                let value = listener.read().unwrap().filter(|value| value.fresh)?;
                Some((value.sequence, value.stamp))
            }
        }
    }
}

/// An `epoll` with one descriptor in it.
fn watching(descriptor: BorrowedFd<'_>) -> OwnedFd {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
    let flags = epoll::EventFlags::IN | epoll::EventFlags::ET;
    epoll::add(&poll, descriptor, epoll::EventData::new_u64(1), flags).unwrap();
    poll
}

/// True if the kernel wakes who waits, within the time.
fn wakes(poll: &OwnedFd, time: Duration) -> bool {
    let mut events = Vec::with_capacity(4);
    let time = Timespec::try_from(time).unwrap();
    epoll::wait(
        poll,
        rustix::buffer::spare_capacity(&mut events),
        Some(&time),
    )
    .unwrap()
        > 0
}

const QUIET: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(5);

#[test]
fn each_value_wakes_who_waits_elsewhere() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    for way in WAYS {
        for wait in WAITS {
            for semantics in [Semantics::Queue, Semantics::Newest] {
                let at = format!("{way:?} {wait:?} {semantics:?}");
                let mut config: ListenerConfig = listener_config(way, 1001);
                (config.wake_up, config.order) = wait;
                let (_endpoint, mut listener) = if semantics == Semantics::Queue {
                    let (endpoint, listener) = listener(&pair, way, &config);
                    (endpoint, Either::Queue(listener))
                } else {
                    let (endpoint, listener) = newest_listener(&pair, way, &config);
                    (endpoint, Either::Newest(listener))
                };
                if way.in_program() && wait.0 == WakeUp::Spin {
                    // Nothing wakes it, and so it says.
                    assert!(
                        listener.arm().is_err() && listener.descriptor().is_err(),
                        "{at}"
                    );
                    continue;
                }
                let poll = watching(listener.descriptor().unwrap());
                let mut config = talker_config(&pair.a, &pair.b, way, 1001);
                config.semantics = semantics;
                let mut talker = talker(&pair, &config);
                assert!(!listener.arm().unwrap(), "{at}: nothing was sent");
                while wakes(&poll, QUIET) {}
                for sequence in 0..20 {
                    talker.send(b"value").unwrap();
                    assert!(wakes(&poll, LONG), "{at}: {sequence} wakes nobody");
                    // Where the kernel wakes before the frame is in the ring, a second look finds it.
                    while !listener.arm().unwrap() {
                        assert!(wakes(&poll, LONG), "{at}: {sequence}");
                    }
                    let (found, stamp) = listener.take().unwrap();
                    assert_eq!(found, sequence, "{at}");
                    let place = if way.in_program() {
                        StampPlace::Program
                    } else {
                        StampPlace::Kernel
                    };
                    // Kernel stamps begin some time after they are asked for.
                    assert!(
                        stamp == place || stamp == StampPlace::Reader,
                        "{at}: {stamp:?}"
                    );
                    assert!(!listener.arm().unwrap(), "{at}: {sequence} was read");
                }
                // What came while nobody waited is there at once.
                talker.send(b"value").unwrap();
                talker.send(b"value").unwrap();
                while !listener.arm().unwrap() {}
                let first = listener.take().unwrap().0;
                match semantics {
                    Semantics::Queue => assert_eq!(first, 20, "{at}"),
                    Semantics::Newest => assert!((20..=21).contains(&first), "{at}"),
                }
            }
        }
    }
}

#[test]
fn an_interface_that_goes_down_wakes_who_waits_elsewhere() {
    require!(root, program "ip");
    for way in [Way::RtdipQdisc, Way::Native] {
        let pair = NetnsPair::new();
        let (_endpoint, listener) = newest_listener(&pair, way, &listener_config(way, 1001));
        let mut listener = Either::Newest(listener);
        let poll = watching(listener.descriptor().unwrap());
        assert!(!listener.arm().unwrap());
        while wakes(&poll, QUIET) {}
        let down = [
            "-n",
            &pair.b.namespace,
            "link",
            "set",
            &pair.b.interface,
            "down",
        ];
        let status = std::process::Command::new("ip").args(down).status();
        assert!(status.unwrap().success());
        assert!(wakes(&poll, LONG), "{way:?}");
        let error = listener.arm().unwrap_err().to_string();
        assert!(error.contains("is down"), "{way:?}: {error}");
    }
}
