//! Launch times of AF_XDP: no driver here observes them, so each test sees the refusal.

use rtwire_link::{LinkError, Sender, SenderConfig, TxPath};
use rtwire_testkit::{NetnsPair, require};

/// Returns the kernel's release, and `true` if it is older than Linux 6.15, the first kernel with them.
fn kernel() -> (String, bool) {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let release = release.trim().to_owned();
    let mut numbers = release.split('.').map(|part| part.parse::<u32>());
    let (major, minor) = (numbers.next().unwrap(), numbers.next().unwrap());
    let older = (major.unwrap(), minor.unwrap()) < (6, 15);
    (release, older)
}

#[test]
fn a_driver_or_kernel_without_them_is_refused_by_name() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let config = SenderConfig {
        path: TxPath::XdpLaunch,
        priority: 3,
        ..SenderConfig::new(pair.a.interface.as_str())
    };
    let refused = pair.a.run(|| Sender::frames(&config)).unwrap_err();
    assert!(
        matches!(&refused, LinkError::NoLaunch { priority: 3, .. }),
        "{refused}"
    );
    let (release, older) = kernel();
    let named = if older {
        format!("Linux {release} has none")
    } else {
        "its driver does not say that it keeps those".to_owned()
    };
    let refused = refused.to_string();
    for part in [
        "`rtwa`",
        &named,
        "igc, stmmac",
        "Linux 6.15",
        "path `launch`",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    // The queue is free again: a sender without launch times may use it.
    let config = SenderConfig {
        path: TxPath::Xdp,
        ..config
    };
    let mut sender = pair.a.run(|| Sender::frames(&config)).unwrap();
    let refused = sender.send_at(&[0; 60], 1).unwrap_err().to_string();
    assert!(refused.contains("`launch` or `xdp-launch`"), "{refused}");
}

#[test]
fn datagrams_have_no_such_way() {
    require!(root, program "ip");
    let pair = NetnsPair::new();
    let config = SenderConfig {
        path: TxPath::XdpLaunch,
        ..SenderConfig::new(pair.a.interface.as_str())
    };
    let peer = std::net::SocketAddrV4::new(pair.b.address, 1);
    let refused = pair.a.run(|| Sender::datagrams(&config, peer)).unwrap_err();
    assert!(
        matches!(refused, LinkError::Unsupported { .. }),
        "{refused}"
    );
}
