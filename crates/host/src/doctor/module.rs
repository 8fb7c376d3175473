//! The kernel module `uman`: loaded, of a version that this program knows, with a device above the interface.

use rtwire_sys::uman::ABI_VERSION;

use super::{Area, Facts, Finding, Level};
use crate::netlink::UmanMode;

pub(super) fn uman(facts: &Facts) -> Vec<Finding> {
    let Some(interface) = &facts.interface else {
        return Vec::new();
    };
    let finding = |found: String| {
        Finding::good(
            Area::Driver,
            "driver.uman",
            found,
            "the path `uman` needs this module: it answers a POWERLINK request in the kernel, on any driver",
        )
    };
    let (files, name) = (&facts.files, &interface.link.name);
    if !files.has("/sys/module/uman") {
        return vec![finding("the kernel module uman is not loaded".to_owned()).at(Level::Note)];
    }
    let version = files.number("/sys/module/uman/parameters/abi");
    if version != Some(ABI_VERSION.into()) {
        let found = version.map_or_else(
            || "a version of its interface that it does not tell".to_owned(),
            |version| format!("version {version} of its interface"),
        );
        return vec![
            finding(format!(
                "the kernel module uman is loaded with {found}; this program knows version {ABI_VERSION}"
            ))
            .at(Level::Weak)
            .by_hand("rmmod uman, and load the module of this version"),
        ];
    }
    let loaded =
        format!("the kernel module uman is loaded, version {ABI_VERSION} of its interface");
    let of =
        |index: u32, lower: u32| index == interface.link.index || lower == interface.link.index;
    let Some(device) = facts.umans.iter().find(|one| of(one.index, one.lower)) else {
        return vec![
            finding(format!("{loaded}; it has no device above `{name}`"))
                .at(Level::Note)
                .by_hand(format!(
                    "rtwire uman add uman0 --link {name}, and ip link set uman0 up"
                )),
        ];
    };
    let above = match device.index == interface.link.index {
        true => format!("`{name}` is its device"),
        false => format!("`{}` is its device above `{name}`", device.name),
    };
    let mode = device.mode.map_or("unknown", UmanMode::name);
    let found = finding(format!("{loaded}; {above}, mode {mode}"));
    let flags = files.read(&format!("/sys/class/net/{}/flags", device.name));
    let flags = flags.and_then(|text| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok());
    match flags {
        Some(flags) if flags & 1 == 0 => vec![
            found
                .at(Level::Weak)
                .by_hand(format!("it is down: ip link set {} up", device.name)),
        ],
        _ => vec![found],
    }
}
