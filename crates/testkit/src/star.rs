//! Stations around a bridge, each in a namespace of its own.

use crate::netns::{Side, ip};
use rtwire_sys::netns;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU32, Ordering};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Several namespaces, joined by a bridge in a namespace of its own that floods group frames.
///
/// The star is removed when dropped; the next test removes the leftovers of a killed one.
#[derive(Debug)]
pub struct Star {
    /// The stations. Their interfaces are called `rtws`.
    pub stations: Vec<Side>,
    /// The bridge's ports, in the order of the stations: each is the other end of a station's interface.
    pub ports: Vec<Side>,
    bridge: String,
}

impl Star {
    /// Creates a star of `stations` stations, at most 200. Needs root and the program `ip`: call
    /// [`require!`](crate::require) before.
    #[must_use]
    pub fn new(stations: u8) -> Self {
        crate::netns::remove_leftovers();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = |end: &str| {
            format!(
                "{}{}-s{number}-{end}",
                crate::netns::PREFIX,
                std::process::id()
            )
        };
        let bridge = name("bridge");
        make(&bridge);
        ip(
            &bridge,
            "link add rtwbr type bridge stp_state 0 mcast_snooping 0",
        );
        ip(&bridge, "link set rtwbr up");
        let mut star = Self {
            stations: Vec::new(),
            ports: Vec::new(),
            bridge: bridge.clone(),
        };
        for station in 1..=stations {
            let namespace = name(&station.to_string());
            make(&namespace);
            let port = format!("rtwp{station}");
            ip(
                &namespace,
                &format!("link add rtws type veth peer name {port} netns {bridge}"),
            );
            let mac = |kind| [2, 0, 0, 0, kind, station];
            let text = mac(1).map(|octet| format!("{octet:02x}")).join(":");
            ip(&namespace, &format!("link set rtws address {text}"));
            ip(&bridge, &format!("link set {port} master rtwbr up"));
            let address = Ipv4Addr::new(10, 78, 0, station);
            ip(&namespace, &format!("addr add {address}/24 dev rtws"));
            ip(&namespace, "link set lo up");
            ip(&namespace, "link set rtws up");
            star.stations.push(Side {
                namespace,
                interface: "rtws".to_owned(),
                mac: mac(1),
                address,
            });
            star.ports.push(Side {
                namespace: bridge.clone(),
                interface: port,
                mac: mac(2),
                address: Ipv4Addr::UNSPECIFIED,
            });
        }
        star
    }
}

fn make(namespace: &str) {
    netns::create(namespace).expect("a namespace can be made by root");
    crate::netns::write_in(
        namespace,
        "/proc/sys/net/ipv6/conf/default/disable_ipv6",
        "1",
    );
    crate::netns::write_in(namespace, "/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
}

impl Drop for Star {
    fn drop(&mut self) {
        for station in &self.stations {
            let _ = netns::delete(&station.namespace);
        }
        let _ = netns::delete(&self.bridge);
    }
}
